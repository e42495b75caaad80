"""Dropout, ordinary and with a mask shared along axes of the joint grid (docs/systems.md 2.5).

Where the same information is repeated along an axis that a block does not aggregate, the mask
is shared along it; otherwise a dropped feature could be read from a neighbouring cell
(Li et al. 2020, section "Reformer-base"; Dropout1d and Dropout2d there). The mask holds only its
distinct values and is applied by broadcasting.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def dropout_mask(shape: Sequence[int], rate: float, like: Tensor) -> Tensor:
    """Draw a mask of 0 with probability `rate` and 1 / (1 - rate) otherwise.

    Args:
        shape: shape of the mask.
        rate: probability of 0, below 1.
        like: gives dtype and device.
    """
    shape = torch.Size(shape)
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return mask_of_draws(shape, rate, like)
    # four 16-bit draws from each random 64-bit number: a third of the time of bernoulli_, with a
    # rate exact to 1/65536
    count = shape.numel()
    threshold = min(round(rate * 2**16), 2**16 - 1) - 2**15  # an int16, even for a rate near 1
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    is_kept = draws.view(torch.int16)[:count].view(shape) >= threshold
    return is_kept.to(like.dtype).mul_(1.0 / (1.0 - rate))


def mask_of_draws(shape: Sequence[int], rate: float, like: Tensor) -> Tensor:
    """Compute `dropout_mask` from one draw per value, in a form that torch compiles correctly.

    In torch 2.13 compiled `bernoulli_` gives nan with `fallback_random` (see `layer.py`).
    """
    is_kept = torch.rand(tuple(shape), device=like.device) >= rate
    return is_kept.to(like.dtype) * (1.0 / (1.0 - rate))


class SharedDropout(nn.Module):
    """Dropout whose mask is constant along some axes; the identity in evaluation or at rate 0.

    Args:
        rate: probability of dropping.
        shared: the axes along which the mask is constant; none gives ordinary dropout.
    """

    def __init__(self, rate: float, shared: Sequence[int] = ()) -> None:
        super().__init__()
        self.rate = rate
        self.shared = tuple(shared)

    @property
    def is_on(self) -> bool:
        """Whether anything is dropped now."""
        return self.training and self.rate > 0.0

    def mask(self, x: Tensor) -> Tensor | None:
        """Draw a mask that broadcasts to `x`, of size 1 along the shared axes; None when off."""
        if not self.is_on:
            return None
        shape = [1 if axis in self.shared else size for axis, size in enumerate(x.shape)]
        return dropout_mask(shape, self.rate, x)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, of any shape, with features dropped."""
        mask = self.mask(x)
        return x if mask is None else x * mask

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return ``residual + dropout(x)``, reading and writing each tensor once."""
        mask = self.mask(x)
        if mask is None:
            return residual + x
        if residual.dtype == x.dtype:
            return torch.addcmul(residual, x, mask)
        return residual + x * mask

    def extra_repr(self) -> str:
        """Describe the rate and the shared axes."""
        return f"rate={self.rate}, shared={self.shared}"
