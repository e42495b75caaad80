"""Attention along one axis: the CPU's way and the fused one give the same (docs/systems.md 0.4)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn import axis_attention
from jtrans.nn.axis_attention import (
    attention_weights,
    fused_attention,
    mix,
    padding_bias,
)

B, A, H, L, D = 3, 4, 2, 5, 8
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def reference(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """Mix values by torch's own attention with one dense mask."""
    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    dense = torch.zeros(allowed.shape, dtype=q.dtype)
    if causal:
        dense = dense.masked_fill(~allowed.tril(), float("-inf"))
    if bias is not None:
        dense = dense + bias
    return F.scaled_dot_product_attention(q, k, v, attn_mask=dense)


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Attend by matrix products."""
    return mix(attention_weights(q, k, bias=bias, causal=causal), v)


def grid_heads(along: str) -> list[Tensor]:
    """Return q, k, v as views of contiguous [B, T, S, E]: lines along T or along S."""
    T, S = (L, A) if along == "target" else (A, L)
    parts = [torch.randn(B, T, S, H * D, dtype=torch.float64) for _ in range(3)]
    split = [part.unflatten(-1, (H, D)) for part in parts]  # [B, T, S, H, D]
    order = (0, 2, 3, 1, 4) if along == "target" else (0, 1, 3, 2, 4)
    return [part.permute(order) for part in split]  # [B, A, H, L, D]


def source_bias() -> Tensor:
    """Return the bias of sentences with 5, 3 and 1 real positions, [B, L]."""
    bias = padding_bias(torch.arange(L) < torch.tensor([[5], [3], [1]]))
    assert bias is not None
    return bias


def test_a_mask_becomes_zero_and_minus_infinity() -> None:
    bias = padding_bias(torch.tensor([[True, True], [True, False]]))
    assert bias is not None
    assert bias.tolist() == [[0.0, 0.0], [0.0, float("-inf")]]


def test_a_mask_without_padding_needs_no_bias_on_a_cpu() -> None:
    assert padding_bias(torch.ones(2, 3, dtype=torch.bool)) is None


@settings(deadline=None, max_examples=25)
@given(
    lines=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    data=st.data(),
)
def test_products_equal_the_attention_of_torch(
    lines: list[int], queries: int, keys: int, data: st.DataObject
) -> None:
    q = torch.randn(*lines, queries, D, dtype=torch.float64)
    k, v = (torch.randn(*lines, keys, D, dtype=torch.float64) for _ in range(2))
    real = data.draw(st.integers(1, keys))
    bias = torch.zeros(keys).masked_fill(torch.arange(keys) >= real, float("-inf"))
    is_causal = queries == keys and data.draw(st.booleans())
    mixed = attend(q, k, v, bias, causal=is_causal)
    torch.testing.assert_close(mixed, reference(q, k, v, bias, is_causal), **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_products_equal_those_of_torch(causal: bool) -> None:
    q, k, v = (torch.randn(B, H, L, D, dtype=torch.float64) for _ in range(3))
    bias = source_bias()[:, None, None, :]
    gradients = []
    functions: tuple[Callable[..., Tensor], ...] = (attend, reference)
    for function in functions:
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        options: dict[str, Any] = {"bias": bias, "causal": causal}
        function(*leaves, **options).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_weights_are_distributions_with_exact_zeros_on_masked_keys() -> None:
    q, k = (torch.randn(B, H, L, D) for _ in range(2))
    weights = attention_weights(q, k, bias=source_bias()[:, None, None, :], causal=True)  # T3
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, L))
    assert not weights.triu(1).any()
    assert not weights[1, :, :, 3:].any()
    assert (weights[2, :, :, 0] == 1).all()


def test_weights_of_half_precision_are_computed_in_float32() -> None:
    q, k, v = (torch.randn(B, H, L, D).bfloat16() for _ in range(3))
    weights = attention_weights(q, k)
    assert weights.dtype == torch.float32
    assert mix(weights, v).dtype == torch.bfloat16


@pytest.mark.parametrize("along", ["target", "source"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_way_gives_the_same_along_both_axes(
    along: str, causal: bool, masked: bool
) -> None:
    q, k, v = grid_heads(along)
    bias = source_bias()[:, None, None, None, :] if masked else None
    fused = fused_attention(q, k, v, bias=bias, causal=causal)
    torch.testing.assert_close(fused, attend(q, k, v, bias, causal=causal), **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_way_gives_the_same_on_sentences(causal: bool, masked: bool) -> None:
    q, k, v = (torch.randn(B, L, H, D, dtype=torch.float64).transpose(1, 2) for _ in range(3))
    bias = source_bias()[:, None, None, :] if masked else None
    fused = fused_attention(q, k, v, bias=bias, causal=causal)
    torch.testing.assert_close(fused, attend(q, k, v, bias, causal=causal), **EXACT)


def test_the_fused_way_takes_one_query_and_a_view_of_a_longer_cache() -> None:
    q = torch.randn(B, A, H, 1, D, dtype=torch.float64)
    k, v = (torch.randn(B, A, H, 16, D, dtype=torch.float64)[..., :L, :] for _ in range(2))
    fused = fused_attention(q, k, v, bias=None, causal=False)
    torch.testing.assert_close(fused, attend(q, k, v), **EXACT)


@pytest.mark.parametrize("along", ["target", "source"])
def test_the_fused_way_copies_neither_queries_keys_nor_values(
    along: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = grid_heads(along)
    taken: list[Tensor] = []
    original: Callable[..., Tensor] = F.scaled_dot_product_attention

    def watch(*parts: Tensor, **options: Any) -> Tensor:
        taken.extend(parts)
        return original(*parts, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watch)
    fused_attention(q, k, v, bias=None, causal=along == "target")
    assert len(taken) == 3
    assert [x.data_ptr() for x in taken] == [x.data_ptr() for x in (q, k, v)]
    assert all(x.dim() == 4 for x in taken)  # what the kernels take


@pytest.mark.parametrize("along", ["target", "source"])
@pytest.mark.parametrize("limit", [1, 2, 5, 12])
def test_the_fused_way_splits_at_the_limit_of_the_kernels(
    along: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = grid_heads(along)
    bias = source_bias()[:, None, None, None, :]
    whole = attend(q, k, v, bias)
    monkeypatch.setattr(axis_attention, "_GRID_LIMIT", limit)
    lengths: list[int] = []
    original: Callable[..., Tensor] = F.scaled_dot_product_attention

    def watch(*parts: Tensor, **options: Any) -> Tensor:
        lengths.append(len(parts[0]))
        return original(*parts, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watch)
    torch.testing.assert_close(fused_attention(q, k, v, bias=bias, causal=False), whole, **EXACT)
    assert max(lengths) <= limit
    assert sum(lengths) == (B if along == "target" else B * A)


def test_gradients_of_the_fused_way_are_the_same() -> None:
    gradients = []
    functions: tuple[Callable[..., Tensor], ...] = (attend, fused_attention)
    for function in functions:
        torch.manual_seed(3)
        leaves = [x.detach().requires_grad_() for x in grid_heads("target")]
        function(*leaves, causal=True).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)
