"""Linear maps; in training on a CPU their products have round numbers of rows."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.cpu import products
from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.cpu.round_rows import FEW


class Linear(nn.Linear):
    """x W^T + b, [..., in] -> [..., out]."""

    def forward(self, x: Tensor) -> Tensor:
        """Map every vector, [..., in] -> [..., out]."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, [..., in] -> [..., out]."""
    if _pays(x):
        return _RoundRows.apply(x, weight, bias)  # type: ignore[no-any-return, no-untyped-call]
    return F.linear(x, weight, bias)


def _pays(x: Tensor) -> bool:
    """Return whether oneDNN computes this product, of many rows, in training and not compiled."""
    if x.device.type != "cpu" or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return x.shape[:-1].numel() > FEW and products.takes(product_dtype(x))


class _RoundRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        dtype = product_dtype(x)
        rows, w = x.reshape(-1, x.shape[-1]).to(dtype).contiguous(), weight.to(dtype)
        ctx.save_for_backward(rows, w)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        with torch.autocast("cpu", enabled=False):
            out = products.linear(rows, w, None if bias is None else bias.to(dtype))
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, w = ctx.saved_tensors
        x_type, weight_type, bias_type = ctx.types
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        [gradient] = gradients
        g = gradient.reshape(-1, gradient.shape[-1]).to(rows.dtype).contiguous()
        with torch.autocast("cpu", enabled=False):
            dx = (
                products.product(g, w).view(*gradient.shape[:-1], -1).to(x_type)
                if needs_x
                else None
            )
            dw = products.sum_of_products(g, rows, weight_type) if needs_weight else None
        return dx, dw, g.sum(0).to(bias_type) if needs_bias else None
