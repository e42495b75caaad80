"""Attention along one axis of a tensor, the other axes being independent lines.

Both attentions of the joint models, and the Transformer's, come down to this. Lines are short
(a sentence), so the way it is computed matters more than the arithmetic:

* on a CPU batched matrix products beat `scaled_dot_product_attention` for short lines, forward
  and backward, in float32 and bfloat16;
* on a GPU `scaled_dot_product_attention` runs on strided views, without a copy.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_GRID_LIMIT = 65_535  # fused CUDA attention launches lines on a grid axis of this size


def padding_bias(mask: Tensor) -> Tensor | None:
    """Turn a mask into a bias of 0 on real keys and -inf on padding.

    Args:
        mask: True on real keys, [B, L].

    Returns:
        [B, L] float32; None when nothing is padded (known without waiting on a CPU only).
    """
    if mask.device.type == "cpu" and bool(mask.all()):
        return None
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf"))


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which a softmax over values of `dtype` is computed."""
    return torch.promote_types(dtype, torch.float32)


def attention_weights(
    q: Tensor, k: Tensor, *, bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)), [..., H, Lq, Lk], in float32 at least.

    Args:
        q: queries, [..., H, Lq, D], strided views welcome.
        k: keys, [..., H, Lk, D].
        bias: 0 or -inf, broadcasts to [..., H, Lq, Lk]. Every query keeps a key: a row that is
            -inf throughout would be nan.
        causal: query l sees keys 0..l only.
    """
    *lines, Lq, D = q.shape
    queries, keys = (x.reshape(-1, x.shape[-2], D) for x in (q, k))
    nothing = queries.new_empty(1, 1, 1)
    scores = torch.baddbmm(nothing, queries, keys.transpose(1, 2), beta=0.0, alpha=D**-0.5)
    scores = scores.view(*lines, Lq, k.shape[-2])
    if bias is not None:  # not in place: on a view that costs autograd two copies
        scores = scores + bias
    if causal and Lq > 1:
        scores = scores + causal_bias(Lq, scores.device)
    return torch.softmax(scores, dim=-1, dtype=at_least_float32(scores.dtype))


def mix(weights: Tensor, v: Tensor) -> Tensor:
    """Return the weighted sums of values, [..., H, Lq, Lk] and [..., H, Lk, D] -> [..., H, Lq, D].

    Args:
        weights: contiguous, after dropout.
        v: values, strided views welcome.
    """
    *lines, Lq, Lk = weights.shape
    values = v.reshape(-1, Lk, v.shape[-1])
    out = torch.bmm(weights.view(-1, Lq, Lk).to(values.dtype), values)  # [lines, Lq, D]
    return out.view(*lines, Lq, -1)


def causal_bias(length: int, device: torch.device) -> Tensor:
    """Return [L, L]: 0 where a position sees another, -inf where that one comes later."""
    return torch.full((length, length), float("-inf"), device=device).triu_(1)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Return `mix` of the `attention_weights` and `v` by torch's fused attention, no dropout."""
    *lines, Lq, D = q.shape
    causal = causal and Lq > 1
    if bias is not None:
        if causal:  # the kernels take a bias or the causal flag, not both
            bias, causal = bias + causal_bias(Lq, bias.device), False
        bias = bias.expand(*lines, *bias.shape[-2:]).to(q.dtype)
    if q.dim() == 5:
        # [B, A, H, L, D]: join the two line axes that lie together in memory, so that no copy
        # is made: (A, H) when they do (target attention), (B, A) otherwise
        joined = 1 if q.stride(1) == q.shape[2] * q.stride(2) else 0
        q, k, v = (x.flatten(joined, joined + 1) for x in (q, k, v))
        if bias is not None:
            bias = bias.flatten(joined, joined + 1)
    parts = []
    for first in range(0, len(q), _GRID_LIMIT):
        lot = slice(first, first + _GRID_LIMIT)
        parts.append(
            F.scaled_dot_product_attention(
                q[lot],
                k[lot],
                v[lot],
                attn_mask=None if bias is None else bias[lot],
                is_causal=causal,
            )
        )
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).view(*lines, Lq, D)
