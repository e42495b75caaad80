"""Attention on a GPU: by the kernels for short axes, else by torch's fused attention.

Fused attention runs on strided views, without a copy. Attention dropout on lines that are too
long for the kernels is left to the plain form.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.nn.attention import CrossAttention, MultiHeadAttention, join_heads, split_heads
from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.gpu.operator import is_supported, short_axis_attention
from jtrans.nn.separable import SourceAttention, TargetAttention, over_lines
from jtrans.nn.softmax import causal_bias

LINES_AT_ONCE = 65_535  # fused CUDA attention launches lines on a grid axis of this size


def self_attention(
    block: MultiHeadAttention,
    x: Tensor,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    cache: KeyValueCache | None = None,
) -> Tensor:
    """Compute `MultiHeadAttention.forward`."""
    heads, axis, dropout = block.heads, block.axis, block.dropout
    is_short = is_supported(x, length=x.shape[axis], head_width=x.shape[-1] // heads)
    if cache is None and is_short:
        mixed = short_axis_attention(
            F.linear(x, block.in_weight, block.in_bias),
            heads,
            axis=axis,
            key_bias=None if bias is None else bias.flatten(1),  # [B, 1, ..., L] -> [B, L]
            causal=causal,
            dropout=dropout.rate if dropout.is_on else 0.0,
            shares_mask=bool(dropout.shared),
        )
        return block.out(mixed)  # type: ignore[no-any-return]
    if dropout.is_on:
        return block(x, bias=bias, causal=causal, cache=cache)  # type: ignore[no-any-return]
    q, k, v = (split_heads(part, heads, axis) for part in _project(block, x))
    if cache is not None:
        k, v = cache.append(k, v)
    mixed = fused_attention(q, k, v, bias=bias, causal=causal)
    return block.out(join_heads(mixed, axis))  # type: ignore[no-any-return]


def cross_attention(
    block: CrossAttention, x: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None
) -> Tensor:
    """Compute `CrossAttention.forward`."""
    if block.dropout.is_on:
        return block(x, k, v, bias=bias)  # type: ignore[no-any-return]
    q = split_heads(block.query(x), block.heads)
    return block.out(join_heads(fused_attention(q, k, v, bias=bias)))  # type: ignore[no-any-return]


def target_attention(
    block: TargetAttention,
    x: Tensor,
    *,
    cache: KeyValueCache | None = None,
    slot_bias: Tensor | None = None,
) -> Tensor:
    """Compute `TargetAttention.forward`."""
    bias = None if slot_bias is None else slot_bias[:, None, None]
    return self_attention(block.attention, x, bias=bias, causal=cache is None, cache=cache)


def source_attention(block: SourceAttention, x: Tensor, source_bias: Tensor | None) -> Tensor:
    """Compute `SourceAttention.forward`."""
    return self_attention(block.attention, x, bias=over_lines(source_bias))


def _project(block: MultiHeadAttention, x: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys and values, [..., E] each, contiguous.

    By one batched product: fused attention could not use strided views of one [..., 3E] output.
    """
    E = x.shape[-1]
    # after the expansion autocast would convert, and so copy, all three
    x = x.to(product_dtype(x))
    vectors = x.reshape(1, -1, E).expand(3, -1, -1)  # [3, N, E] with stride 0
    weight = block.in_weight.view(3, E, E).transpose(1, 2)
    parts = torch.baddbmm(block.in_bias.view(3, 1, E).to(weight.dtype), vectors, weight)
    return tuple(part.view(x.shape) for part in parts.unbind(0))


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Return softmax(Q K^T / sqrt(D)) V, [..., H, Lq, D], by torch's fused attention.

    Args:
        q: queries, [..., H, Lq, D], may be a strided view.
        k: keys, [..., H, Lk, D].
        v: values, [..., H, Lk, D].
        bias: 0 or -inf, broadcasts to [..., H, Lq, Lk].
        causal: query l attends to keys 0..l only.
    """
    *lines, Lq, D = q.shape
    if Lq == 1:
        causal = False  # not `causal and Lq > 1`: in compiled code Lq > 1 is no bool
    if bias is not None:
        if causal:  # the kernels take a bias or the causal flag, not both
            bias, causal = bias + causal_bias(Lq, bias.device), False
        bias = bias.to(q.dtype).expand(*lines, *bias.shape[-2:])
    if q.dim() == 5:
        # [B, A, H, L, D]: join the two line axes that lie together in memory, so that no copy
        # is needed: (A, H) when they do (target attention), (B, A) otherwise
        joined = 1 if q.stride(1) == q.shape[2] * q.stride(2) else 0
        q, k, v = (x.flatten(joined, joined + 1) for x in (q, k, v))
        if bias is not None:
            bias = bias.flatten(joined, joined + 1)
    if len(q) <= LINES_AT_ONCE:  # a loop would be compiled anew for each number of lines
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)
        return mixed.view(*lines, Lq, D)
    parts = []
    for first in range(0, len(q), LINES_AT_ONCE):
        lines_now = slice(first, first + LINES_AT_ONCE)
        mask = None if bias is None else bias[lines_now]
        inputs = q[lines_now], k[lines_now], v[lines_now]
        parts.append(F.scaled_dot_product_attention(*inputs, attn_mask=mask, is_causal=causal))
    return torch.cat(parts).view(*lines, Lq, D)
