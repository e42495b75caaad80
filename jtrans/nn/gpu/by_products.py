"""Short-axis attention by batched matrix products: the operator where there is no GPU.

The same numbers as the GPU kernels up to rounding, the noise included: scores, softmax and their
gradients in float32 (float64 for float64 inputs), weights in the inputs' type before they meet
the values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.gpu.noise import weights_noise


def output_like(qkv: Tensor) -> Tensor:
    """Return an empty result [B, A, H, L, D] that lies in memory as `qkv` [3, B, A, H, L, D] does.

    Heads lie side by side within a position, so that joining them is a view.
    """
    _, B, A, H, L, D = qkv.shape
    if qkv.stride(2) < qkv.stride(4):  # along the outer of the two axes
        return qkv.new_empty(B, L, A, H, D).permute(0, 2, 3, 1, 4)
    return qkv.new_empty(B, A, L, H, D).transpose(2, 3)


def forward(
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor | None,
    *,
    causal: bool,
    rate: float,
    share_noise: bool,
) -> Tensor:
    """Mix values by softmax(q k^T / sqrt(D)), [3, B, A, H, L, D] -> [B, A, H, L, D].

    Args:
        qkv: queries, keys and values of B sentences with A lines each.
        key_bias: 0 on real keys, -inf on padding, [B, L].
        seed: of the noise; needed where `rate` is not 0.
        causal: query l sees keys 0..l only.
        rate: dropout of the weights.
        share_noise: the lines of a sentence share their noise.
    """
    with torch.autocast(qkv.device.type, enabled=False):
        weights, noise = _weights(qkv, key_bias, seed, causal, rate, share_noise)
        if noise is not None:
            weights = weights * noise
        return output_like(qkv).copy_(weights.to(qkv.dtype) @ qkv[2])


def backward(
    gradient: Tensor,
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor | None,
    *,
    causal: bool,
    rate: float,
    share_noise: bool,
) -> Tensor:
    """Return the gradient of `qkv` from that of the result; weights and noise are made again."""
    with torch.autocast(qkv.device.type, enabled=False):
        weights, noise = _weights(qkv, key_bias, seed, causal, rate, share_noise)
        q, k, v = qkv.unbind(0)
        of_weights = (gradient @ v.transpose(-1, -2)).to(weights.dtype)  # [B, A, H, L, L]
        noisy = weights
        if noise is not None:
            of_weights, noisy = of_weights * noise, weights * noise
        mean = (weights * of_weights).sum(-1, keepdim=True)
        of_scores = (weights * (of_weights - mean) * q.shape[-1] ** -0.5).to(qkv.dtype)
        out = torch.empty_like(qkv)
        out[0] = of_scores @ k
        out[1] = of_scores.transpose(-1, -2) @ q
        out[2] = noisy.to(qkv.dtype).transpose(-1, -2) @ gradient
        return out


def _weights(
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    rate: float,
    share_noise: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return weights before dropout, [B, A, H, L, L], and their noise [B, A or 1, H, L, L]."""
    _, B, A, H, L, D = qkv.shape
    precise = torch.promote_types(qkv.dtype, torch.float32)
    scores = qkv[0].to(precise) @ qkv[1].to(precise).transpose(-1, -2) * D**-0.5
    if key_bias is not None:
        scores = scores + key_bias[:, None, None, None, :]
    if causal:
        scores = scores + scores.new_full((L, L), float("-inf")).triu_(1)
    weights = torch.softmax(scores, dim=-1)
    if seed is None:
        return weights, None
    lines = 1 if share_noise else A
    noise = weights_noise(seed, B * lines * H, L, rate).to(precise)
    return weights, noise.view(B, lines, H, L, L)
