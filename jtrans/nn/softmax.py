"""Softmax over some positions, and the biases that exclude the others.

Masks are boolean, True where a position takes part; the bias added to scores is 0 there and -inf
elsewhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.cpu.softmax import is_short, softmax_of_short_rows


def mask_bias(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn a mask of any shape into a bias: 0 where it is True, -inf elsewhere."""
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, float("-inf"))


def padding_bias(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor | None:
    """Turn a mask into a bias of 0 on real positions and -inf on padding.

    Args:
        mask: True on real positions, [B, L].
        dtype: type of the bias.

    Returns:
        [B, L]; None when nothing is padded (tested on a CPU only, as a GPU would wait).
    """
    if mask.device.type == "cpu" and bool(mask.all()):
        return None
    return mask_bias(mask, dtype)


def causal_bias(length: int, device: torch.device) -> Tensor:
    """Return the bias [L, L]: -inf where the key comes after the query, otherwise 0."""
    return torch.full((length, length), float("-inf"), device=device).triu_(1)


def softmax(scores: Tensor, dim: int) -> Tensor:
    """Return the softmax along `dim`, computed and returned in float32 at least.

    Args:
        scores: of any shape; at least one along `dim` is finite, or the result would be nan.
        dim: the axis whose weights add up to 1.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if dim in (-1, scores.dim() - 1) and is_short(scores):
        return softmax_of_short_rows(scores.to(dtype))
    return torch.softmax(scores, dim, dtype=dtype)
