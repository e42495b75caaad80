"""The depth-wise grid convolution on a CPU.

In bf16 the gradient of its weights takes torch three to five times as long as in float32 (torch
2.13: 25 instead of 6 ms for 7 x 7 taps, 128 channels and 6,400 cells). So the backward pass
computes in float32. It pads the input again, so that the padded copy need not be saved.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.nn.cpu.blocks import product_dtype


def depth_wise(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve every channel of a grid, zero beyond its edges, along earlier rows and all columns.

    Args:
        x: [B, T, S, C]; the result has the same shape.
        weight: taps, [C, 1, k//2 + 1, k], those of the cell's own row last.
        bias: [C].
    """
    result: Tensor = _DepthWise.apply(x, weight, bias, product_dtype(x))  # type: ignore[no-untyped-call]
    return result


class _DepthWise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        with torch.autocast("cpu", enabled=False):
            taps = weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
            padded = _padded(x.to(dtype), weight)
            reach = weight.shape[3] // 2
            y = F.conv2d(padded, taps, bias, padding=(0, reach), groups=len(weight))
        return y.permute(0, 2, 3, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        precise = torch.promote_types(x.dtype, torch.float32)
        C, _, rows, columns = weight.shape
        d_x, d_weight, d_bias = torch.ops.aten.convolution_backward(
            gradients[0].to(precise).permute(0, 3, 1, 2),
            _padded(x.to(precise), weight),
            weight.to(precise),
            [C] if ctx.has_bias else None,
            [1, 1],
            [0, columns // 2],
            [1, 1],
            False,
            [0, 0],
            C,
            [True, True, ctx.has_bias],
        )
        d_x = d_x[:, :, rows - 1 :].permute(0, 2, 3, 1).to(x.dtype)
        return d_x, d_weight.to(weight.dtype), d_bias if ctx.has_bias else None, None


def _padded(x: Tensor, weight: Tensor) -> Tensor:
    """Return the grid with zeros above for the rows of taps, [B, C, rows - 1 + T, S]."""
    return F.pad(x, (0, 0, 0, 0, weight.shape[2] - 1, 0)).permute(0, 3, 1, 2)
