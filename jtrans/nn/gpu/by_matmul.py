"""Short-axis attention by batched matrix products: the operator on machines without a GPU.

Agrees with the GPU kernels up to rounding, the dropout mask included: scores, softmax and their
gradients are in float32 (float64 for float64 inputs), and weights are converted to the inputs' type
before they multiply the values.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from jtrans.nn.attention import attention_weights
from jtrans.nn.gpu.dropout_mask import weights_mask


class Weighting(NamedTuple):
    """The inputs of the weights besides queries and keys."""

    key_bias: Tensor | None = None  # 0 on real keys, -inf on padding, [B, L]
    seed: Tensor | None = None  # seed of the weights' dropout mask; None if nothing is dropped
    causal: bool = False  # query l attends to keys 0..l only
    rate: float = 0.0  # dropout of the weights
    shares_mask: bool = True  # the lines of a sentence share their dropout mask
    is_scaled: bool = False  # queries already have the factor 1/sqrt(D)

    def scale(self, width: int) -> float:
        """Return the factor of the scores for heads of width D."""
        return 1.0 if self.is_scaled else width**-0.5


def output_like(qkv: Tensor) -> Tensor:
    """Return an empty result [B, A, H, L, D] with the memory layout of `qkv` [3, B, A, H, L, D].

    Heads lie side by side within a position, so that joining them is a view.
    """
    _, B, A, H, L, D = qkv.shape
    if qkv.stride(2) < qkv.stride(4):  # along the outer of the two axes
        return qkv.new_empty(B, L, A, H, D).permute(0, 2, 3, 1, 4)
    return qkv.new_empty(B, A, L, H, D).transpose(2, 3)


def forward(qkv: Tensor, weighting: Weighting) -> Tensor:
    """Mix values by softmax(q k^T / sqrt(D)), [3, B, A, H, L, D] -> [B, A, H, L, D].

    Args:
        qkv: queries, keys and values of B sentences with A lines each, may be a strided view.
        weighting: the other inputs of the weights.
    """
    with torch.autocast(qkv.device.type, enabled=False):
        weights, mask = _weights(qkv, weighting)
        if mask is not None:
            weights = weights * mask
        return output_like(qkv).copy_(weights.to(qkv.dtype) @ qkv[2])


def backward(gradient: Tensor, qkv: Tensor, weighting: Weighting) -> Tensor:
    """Return the gradient of `qkv`, [3, B, A, H, L, D], given that of the result."""
    with torch.autocast(qkv.device.type, enabled=False):
        weights, mask = _weights(qkv, weighting)
        q, k, v = qkv.unbind(0)
        d_weights = (gradient @ v.mT).to(weights.dtype)  # [B, A, H, L, L]
        dropped = weights
        if mask is not None:
            d_weights, dropped = d_weights * mask, weights * mask
        mean = (weights * d_weights).sum(-1, keepdim=True)
        d_scores = (weights * (d_weights - mean) * weighting.scale(q.shape[-1])).to(qkv.dtype)
        out = torch.empty_like(qkv)
        out[0] = d_scores @ k
        out[1] = d_scores.mT @ q
        out[2] = dropped.to(qkv.dtype).mT @ gradient
        return out


def _weights(qkv: Tensor, weighting: Weighting) -> tuple[Tensor, Tensor | None]:
    """Return weights before dropout, [B, A, H, L, L], and their mask [B, A or 1, H, L, L]."""
    _, B, A, H, L, D = qkv.shape
    key_bias, seed, causal, rate, shares_mask, is_scaled = weighting
    precise = torch.promote_types(qkv.dtype, torch.float32)
    bias = None if key_bias is None else key_bias[:, None, None, None, :]
    queries = qkv[0].to(precise) * (D**0.5 if is_scaled else 1.0)
    weights = attention_weights(queries, qkv[1].to(precise), bias=bias, causal=causal)
    if seed is None:
        return weights, None
    lines = 1 if shares_mask else A
    mask = weights_mask(seed, B * lines * H, L, rate).to(precise)
    return weights, mask.view(B, lines, H, L, L)
