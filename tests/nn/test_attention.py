"""Multi-head attention against its definition, head by head (docs/systems.md 0.4)."""

import math
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from jtrans.nn.attention import CrossAttention, MultiHeadAttention
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import record_attention

B, L, E, H = 3, 5, 8, 2
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}
NONE = SharedDropout(0.0)
Module = TypeVar("Module", MultiHeadAttention, CrossAttention)


def by_definition(
    x: Tensor, memory: Tensor, weight: Tensor, bias: Tensor, out: torch.nn.Linear, allowed: Tensor
) -> Tensor:
    """Attend from x [B, Lq, E] to memory [B, Lk, E], one head and one query at a time."""
    q, k, v = (
        part @ w.t() + b
        for part, w, b in zip((x, memory, memory), weight.chunk(3), bias.chunk(3), strict=True)
    )
    mixed = torch.zeros_like(x)
    for b in range(len(x)):
        for h in range(H):
            head = slice(h * E // H, (h + 1) * E // H)
            for i in range(x.shape[1]):
                seen = allowed[b, i].nonzero()[:, 0]
                scores = k[b, seen, head] @ q[b, i, head] / math.sqrt(E // H)
                mixed[b, i, head] = torch.softmax(scores, 0) @ v[b, seen, head]
    return mixed @ out.weight.t() + out.bias


def perturbed(module: Module) -> Module:
    """Give every bias a value, so that a forgotten one is noticed."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_self_attention_is_its_definition(causal: bool, masked: bool) -> None:
    attention = perturbed(MultiHeadAttention(E, H, NONE))
    x = torch.randn(B, L, E, dtype=torch.float64)
    real = torch.arange(L) < torch.tensor([[5], [3], [1]]) if masked else torch.ones(B, L).bool()
    allowed = real[:, None, :].expand(B, L, L)
    allowed = allowed.tril() if causal else allowed
    bias = torch.zeros(B, 1, 1, L).masked_fill(~real[:, None, None], float("-inf"))
    expected = by_definition(x, x, attention.in_weight, attention.in_bias, attention.out, allowed)
    torch.testing.assert_close(attention(x, bias=bias, causal=causal), expected, **EXACT)


@torch.no_grad()
def test_cross_attention_is_its_definition() -> None:
    attention = perturbed(CrossAttention(E, H, NONE))
    x = torch.randn(B, L, E, dtype=torch.float64)
    memory = torch.randn(B, 7, E, dtype=torch.float64)
    real = torch.arange(7) < torch.tensor([[7], [3], [1]])
    bias = torch.zeros(B, 1, 1, 7).masked_fill(~real[:, None, None], float("-inf"))
    weight = torch.cat([attention.query.weight, attention.key_value.weight])
    shift = torch.cat([attention.query.bias, attention.key_value.bias])
    allowed = real[:, None, :].expand(B, L, 7)
    expected = by_definition(x, memory, weight, shift, attention.out, allowed)
    actual = attention(x, *attention.keys_values(memory), bias=bias)
    torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("axis", [1, 2, -2, -3])
@torch.no_grad()
def test_any_axis_can_be_attended_along(axis: int) -> None:
    attention = perturbed(MultiHeadAttention(E, H, NONE, axis=axis))
    along_last = MultiHeadAttention(E, H, NONE).double()
    along_last.load_state_dict(attention.state_dict())
    x = torch.randn(B, 4, 6, E, dtype=torch.float64)
    moved = x.movedim(axis, -2)
    expected = along_last(moved, causal=True).movedim(-2, axis)
    torch.testing.assert_close(attention(x, causal=True), expected, **EXACT)


def assert_uniform(weight: Tensor, bound: float) -> None:
    """Check that `weight` fills -bound..bound evenly."""
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.98 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


def test_queries_keys_and_values_are_drawn_as_one_matrix() -> None:
    width = 64
    attention = MultiHeadAttention(width, 4, NONE)
    assert_uniform(attention.in_weight, math.sqrt(6 / (4 * width)))
    assert_uniform(attention.out.weight, math.sqrt(6 / (2 * width)))
    assert not attention.in_bias.any()
    assert not attention.out.bias.any()


def test_cross_attention_is_drawn_as_self_attention_is() -> None:
    width = 64
    attention = CrossAttention(width, 4, NONE)
    for weight in (attention.query.weight, attention.key_value.weight):
        assert_uniform(weight, math.sqrt(6 / (4 * width)))
    assert_uniform(attention.out.weight, math.sqrt(6 / (2 * width)))
    for linear in (attention.query, attention.key_value, attention.out):
        assert not linear.bias.any()


def test_dropout_acts_on_the_weights_of_every_head_and_query() -> None:
    attention = MultiHeadAttention(E, H, SharedDropout(0.5)).train()
    x = torch.randn(B, L, E)
    with torch.no_grad(), record_attention() as recorder:
        dropped = attention(x)
        assert not torch.equal(dropped, attention.eval()(x))
    for weights in recorder.calls[attention]:  # as they were before dropout
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, L))
