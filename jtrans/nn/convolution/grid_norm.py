"""Batch norm over the real cells of the joint grid (docs/systems.md 9.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.1  # the weight of a micro-batch in the running statistics


class GridBatchNorm(nn.Module):
    """Normalise every channel over all real cells of the micro-batch; padding gives zero.

    Evaluation uses the running statistics of training, which are part of a checkpoint.

    Args:
        channels: C.

    Attributes:
        is_tracking: whether training updates the running statistics; False while a layer is
            recomputed in the backward pass, which must not count a micro-batch twice.
    """

    mean: Tensor
    variance: Tensor

    eps = 1e-5  # added to variances

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.is_tracking = True

    def forward(self, x: Tensor, is_real: Tensor) -> Tensor:
        """Normalise a grid.

        Args:
            x: [B, T, S, C].
            is_real: True on real cells, broadcasts to [B, T, S, 1].

        Returns:
            [B, T, S, C] in float32 (float64 where x is); zero at padding.
        """
        dtype = torch.promote_types(x.dtype, torch.float32)
        x, real = x.to(dtype), is_real.expand(*x.shape[:3], 1).to(dtype)
        if not self.training:
            scale, shift = self.affine()
            return torch.addcmul(shift, x, scale) * real
        count = real.sum()
        with torch.no_grad():
            mean = (x * real).sum((0, 1, 2)) / count
            variance = ((x - mean).square_() * real).sum((0, 1, 2)) / count
            if self.is_tracking:
                unbiased = variance * (count / (count - 1.0).clamp(min=1.0))
                self.mean.lerp_(mean.to(self.mean.dtype), MOMENTUM)
                self.variance.lerp_(unbiased.to(self.variance.dtype), MOMENTUM)
        rate = torch.rsqrt(variance + self.eps)
        result: Tensor = _Normalise.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, real, mean, rate, count
        )
        return result

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return the scale and shift of evaluation, [C] each."""
        scale = self.weight * torch.rsqrt(self.variance + self.eps)
        return scale, self.bias - self.mean * scale


class _Normalise(torch.autograd.Function):
    """``(x - mean) * rate * weight + bias`` on real cells, mean and rate being functions of x."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        real: Tensor,
        mean: Tensor,
        rate: Tensor,
        count: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, real, mean, rate, count)
        scale = weight * rate
        return torch.addcmul(bias - mean * scale, x, scale).mul_(real)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, real, mean, rate, count = ctx.saved_tensors
        gradient = gradients[0] * real
        y = (x - mean).mul_(rate)  # normalised
        d_bias = gradient.sum((0, 1, 2))
        d_weight = (gradient * y).sum((0, 1, 2))
        # through the statistics, every real cell depends on all others
        d_x = (gradient - d_bias / count).sub_(y.mul_(d_weight / count))
        return d_x.mul_(weight * rate).mul_(real), d_weight, d_bias, None, None, None, None
