"""Attention weights and what they mix, against torch's own attention (docs/systems.md 0.4)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.attention import attend, source_bias
from torch import Tensor

from jtrans.nn.attention import attention_weights, mix

B, H, L, D = 3, 2, 5, 8
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
    bias = source_bias(L)[:, None, None, :]
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
    weights = attention_weights(q, k, bias=source_bias(L)[:, None, None, :], causal=True)  # T3
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, L))
    assert not weights.triu(1).any()
    assert not weights[1, :, :, 3:].any()
    assert (weights[2, :, :, 0] == 1).all()


def test_weights_of_half_precision_are_computed_in_float32() -> None:
    q, k, v = (torch.randn(B, H, L, D).bfloat16() for _ in range(3))
    weights = attention_weights(q, k, bias=None)
    assert weights.dtype == torch.float32
    assert mix(weights, v).dtype == torch.bfloat16
