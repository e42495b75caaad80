"""Separable attention on the grid (docs/systems.md 2.3; properties R2, R9, R13)."""

import math
from itertools import product
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import record_attention
from jtrans.nn.separable import SourceAttention, TargetAttention
from jtrans.nn.softmax import padding_bias

E, H = 8, 2
Attention = TypeVar("Attention", TargetAttention, SourceAttention)
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def random_attention(attention: type[Attention]) -> Attention:
    """Build one of the two with random weights and biases, in float64."""
    module = attention(E, H, SharedDropout(0.0))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double()


def collapsed(x: Tensor, attention: MultiHeadAttention, visible: Tensor) -> Tensor:
    """Dense attention over the T S cells of the grid as one sequence.

    Args:
        x: [B, T, S, E].
        attention: gives the weights.
        visible: which cell sees which, [B, T S, T S].
    """
    B, T, S, _ = x.shape
    cells = x.reshape(B, T * S, E)
    q, k, v = (
        (cells @ w.t() + b).view(B, T * S, H, E // H).transpose(1, 2)
        for w, b in zip(attention.in_weight.chunk(3), attention.in_bias.chunk(3), strict=True)
    )
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(E // H)  # [B, H, T S, T S]
    weights = scores.masked_fill(~visible[:, None], float("-inf")).softmax(-1)
    mixed = (weights @ v).transpose(1, 2).reshape(B, T, S, E)
    return mixed @ attention.out.weight.t() + attention.out.bias


def visible_cells(mask: Tensor, rows: int, *, along_target: bool) -> Tensor:
    """Say for every pair of cells whether (j, i) sees (j', i'), by the words of the design."""
    (B, S), T = mask.shape, rows
    visible = torch.zeros(B, T * S, T * S, dtype=torch.bool)
    for b, j, i, j2, i2 in product(range(B), range(T), range(S), range(T), range(S)):
        seen = (i2 == i and j2 <= j) if along_target else (j2 == j and bool(mask[b, i2]))
        visible[b, j * S + i, j2 * S + i2] = seen
    return visible


@settings(deadline=None, max_examples=8)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3), rows=st.integers(1, 4))
@torch.no_grad()
def test_both_attentions_are_dense_attention_over_the_collapsed_grid(
    lengths: list[int], rows: int
) -> None:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x = torch.randn(len(mask), rows, mask.shape[1], E, dtype=torch.float64)
    target, source = random_attention(TargetAttention), random_attention(SourceAttention)
    torch.testing.assert_close(
        target(x),
        collapsed(x, target.attention, visible_cells(mask, rows, along_target=True)),
        **EXACT,
    )
    torch.testing.assert_close(
        source(x, padding_bias(mask)),
        collapsed(x, source.attention, visible_cells(mask, rows, along_target=False)),
        **EXACT,
    )


@torch.no_grad()
def value_path(x: Tensor, attention: MultiHeadAttention) -> Tensor:
    """Return Wo (Wv x + bv) + bo."""
    values = x @ attention.in_weight[2 * E :].t() + attention.in_bias[2 * E :]
    return values @ attention.out.weight.t() + attention.out.bias


@pytest.mark.parametrize("rows", [1, 5])
@torch.no_grad()
def test_attention_along_one_source_position_passes_its_value(rows: int) -> None:
    attention = random_attention(SourceAttention)
    x = torch.randn(3, rows, 1, E, dtype=torch.float64)
    torch.testing.assert_close(attention(x, None), value_path(x, attention.attention), **EXACT)


@pytest.mark.parametrize("columns", [1, 5])
@torch.no_grad()
def test_attention_along_one_target_position_passes_its_value(columns: int) -> None:
    attention = random_attention(TargetAttention)
    x = torch.randn(3, 1, columns, E, dtype=torch.float64)
    torch.testing.assert_close(attention(x), value_path(x, attention.attention), **EXACT)


@torch.no_grad()
def test_weights_are_recorded_with_the_other_axis_as_lines() -> None:
    B, T, S = 2, 3, 5
    x = torch.randn(B, T, S, E, dtype=torch.float64)
    mask = torch.arange(S) < torch.tensor([[5], [2]])
    along_target, along_source = (
        random_attention(TargetAttention),
        random_attention(SourceAttention),
    )
    with record_attention() as recorder:
        along_target(x)
        along_source(x, padding_bias(mask))
    target, source = recorder[along_target.attention], recorder[along_source.attention]
    assert target.shape == (B, S, H, T, T)
    assert source.shape == (B, T, H, S, S)
    for weights in (target, source):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert not target.triu(1).any()
    assert not source[1, ..., 2:].any()
