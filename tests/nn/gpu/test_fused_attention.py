"""Torch's fused attention gives what attention by matrix products gives (docs/systems.md 0.4)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from plugins.attention import attend, source_bias
from torch import Tensor

from jtrans.nn.gpu import attention as gpu_attention
from jtrans.nn.gpu.attention import fused_attention

B, A, H, L, D = 3, 4, 2, 5, 8
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def grid_heads(along: str) -> list[Tensor]:
    """Return q, k, v as views of contiguous [B, T, S, E]: lines along T or along S."""
    T, S = (L, A) if along == "target" else (A, L)
    parts = [torch.randn(B, T, S, H * D, dtype=torch.float64) for _ in range(3)]
    split = [part.unflatten(-1, (H, D)) for part in parts]  # [B, T, S, H, D]
    order = (0, 2, 3, 1, 4) if along == "target" else (0, 1, 3, 2, 4)
    return [part.permute(order) for part in split]  # [B, A, H, L, D]


@pytest.mark.parametrize("along", ["target", "source"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_way_gives_the_same_along_both_axes(
    along: str, causal: bool, masked: bool
) -> None:
    q, k, v = grid_heads(along)
    bias = source_bias(L)[:, None, None, None, :] if masked else None
    fused = fused_attention(q, k, v, bias=bias, causal=causal)
    torch.testing.assert_close(fused, attend(q, k, v, bias, causal=causal), **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_way_gives_the_same_on_sentences(causal: bool, masked: bool) -> None:
    q, k, v = (torch.randn(B, L, H, D, dtype=torch.float64).transpose(1, 2) for _ in range(3))
    bias = source_bias(L)[:, None, None, :] if masked else None
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
    bias = source_bias(L)[:, None, None, None, :]
    whole = attend(q, k, v, bias)
    monkeypatch.setattr(gpu_attention, "LINES_AT_ONCE", limit)
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
