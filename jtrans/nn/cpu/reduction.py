"""``reduction(LN(x))`` in blocks of positions (see `jtrans.nn.cpu.blocks`)."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.blocks import Part, parts, product_dtype


def reduction_in_blocks(
    reduction: nn.Module, x: Tensor, norm: nn.Module | None, source_bias: Tensor | None
) -> Tensor:
    """Return the Reduction of LN(x), [B, T, E], part by part, recomputed in the backward pass.

    Args:
        reduction: maps a part of x, [b, t, S, E], and its bias to [b, t, E]; has no dropout.
        x: [B, T, S, E].
        norm: the layer norm before it, if there is one.
        source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
    """
    weights = [*reduction.parameters(), *(norm.parameters() if norm is not None else ())]
    reduced: Tensor = _RecomputedReduction.apply(reduction, norm, x, source_bias, *weights)  # type: ignore[no-untyped-call]
    return reduced


class _RecomputedReduction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        reduction: nn.Module,
        norm: nn.Module | None,
        x: Tensor,
        source_bias: Tensor | None,
        *weights: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, source_bias, *weights)
        ctx.reduction, ctx.norm, ctx.dtype = reduction, norm, product_dtype(x)
        values = x.detach()  # else hooks of modules would wait for a part's gradient
        reduced = [
            _reduce(reduction, norm, values[part], _bias(source_bias, part))
            for part in parts(x.shape)
        ]
        return torch.cat([r.reshape(-1, r.shape[-1]) for r in reduced]).view(*x.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, source_bias, *weights = ctx.saved_tensors
        trained = [weight for weight in weights if weight.requires_grad]
        dx, totals = torch.empty_like(x), [torch.zeros_like(weight) for weight in trained]
        is_cast = ctx.dtype != x.dtype
        for part in parts(x.shape):
            x_part = x[part].detach().requires_grad_()
            with (
                torch.enable_grad(),
                torch.autocast("cpu", dtype=ctx.dtype) if is_cast else contextlib.nullcontext(),
            ):
                inner = x_part.view_as(x_part)  # hooks of modules cannot wait for a leaf's gradient
                reduced = _reduce(ctx.reduction, ctx.norm, inner, _bias(source_bias, part))
            d_part = torch.autograd.grad(reduced, [x_part, *trained], gradients[0][part])
            dx[part] = d_part[0]
            for total, gradient in zip(totals, d_part[1:], strict=True):
                total += gradient
        of_trained = iter(totals)
        d_weights = (next(of_trained) if weight.requires_grad else None for weight in weights)
        return None, None, dx, None, *d_weights


def _reduce(reduction: nn.Module, norm: nn.Module | None, x: Tensor, bias: Tensor | None) -> Tensor:
    return reduction(x if norm is None else norm(x), bias)  # type: ignore[no-any-return]


def _bias(source_bias: Tensor | None, part: Part) -> Tensor | None:
    return None if source_bias is None else source_bias[part[0]]
