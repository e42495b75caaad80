"""Softmax of short rows, of which attention within a sentence has many.

Torch computes rows of less than 16 numbers one number at a time (torch 2.13: 740 instead of 57 us
for 4,080 rows of 12, and 286 instead of 46 backward). Decoding has its own form, without a
gradient, in `jtrans.nn.cpu.short_lines`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

VECTOR = 16  # from here on torch computes many numbers of a row at the same time
# the exponentials of so large a number and of its negative are far from overflow in float32, and so
# are their sums over a line
SAFE = 60.0


def is_short(scores: Tensor) -> bool:
    """Return whether this softmax is faster than torch's in training."""
    return (
        scores.device.type == "cpu"
        and scores.numel() > 0
        and scores.shape[-1] < VECTOR
        and scores.requires_grad
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
    )


def softmax_of_short_rows(scores: Tensor) -> Tensor:
    """Return the softmax of [..., L] along the last axis, with a gradient; float32 at least."""
    weights: Tensor = _Softmax.apply(scores)  # type: ignore[no-untyped-call]
    return weights


def forward(scores: Tensor) -> Tensor:
    """Return the softmax of [..., L] along the last axis, without a gradient; float32 at least."""
    if scores.numel() == 0 or scores.shape[-1] >= VECTOR or not float(scores.amax()) < SAFE:
        return torch.softmax(scores, -1)
    # where nothing overflows or vanishes, subtracting each row's maximum would change nothing
    exponentials = scores.exp()
    sums = exponentials.sum(-1, keepdim=True)
    if float(sums.amin()) < math.exp(-SAFE):
        return torch.softmax(scores, -1)
    return exponentials.div_(sums)


def backward(gradient: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores.

    Args:
        gradient: the gradient of the weights, [..., L].
        weights: the result of the softmax, [..., L].
    """
    if weights.shape[-1] >= VECTOR:
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)
    product = gradient * weights
    return product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1.0)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = forward(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return backward(gradients[0], weights)
