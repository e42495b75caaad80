"""``x + noise * FFN(LN(x))`` in blocks of positions (see `jtrans.nn.cpu.blocks`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jtrans.nn.cpu.blocks import (
    LayerNorm,
    Part,
    add_dropped,
    as_type,
    dropped_gradient,
    narrow,
    parts,
    product_dtype,
    rows,
)


def feed_forward_in_blocks(
    x: Tensor,
    norm: LayerNorm,
    inner: tuple[Tensor, Tensor],
    outer: tuple[Tensor, Tensor],
    *,
    hidden_noise: Tensor | None,
    noise: Tensor | None,
    keep_hidden: bool,
) -> Tensor:
    """Return ``x + noise * ((relu(LN(x) W1 + b1) * hidden_noise) W2 + b2)``.

    Args:
        x: [B, ..., E], three axes at least.
        norm: the layer norm.
        inner: W1 [F, E] and b1 [F].
        outer: W2 [E, F] and b2 [E].
        hidden_noise: dropout noise of the hidden layer, broadcasts to [B, ..., F]; one positive
            value where it is not 0.
        noise: dropout noise of the result, broadcasts to [B, ..., E].
        keep_hidden: keep the hidden layer for the backward pass; otherwise it is computed again,
            a ninth more arithmetic for 4 of 5 numbers kept per feature.
    """
    wrapped: Tensor = _FeedForward.apply(  # type: ignore[no-untyped-call]
        x, *norm[:2], *inner, *outer, hidden_noise, noise, norm.eps, keep_hidden
    )
    return wrapped


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        hidden_noise: Tensor | None,
        noise: Tensor | None,
        eps: float,
        keep_hidden: bool,
    ) -> Tensor:
        dtype, norm = product_dtype(x), LayerNorm(gamma, beta, eps)
        x = x.contiguous()
        result = torch.empty_like(x)
        kept = x.new_empty(*x.shape[:-1], len(w1), dtype=dtype) if keep_hidden else None
        with torch.autocast("cpu", enabled=False):
            W1, B1, W2, B2 = (w.to(dtype) for w in (w1, b1, w2, b2))
            hidden_noise, noise = as_type(hidden_noise, dtype), as_type(noise, dtype)
            for part in parts(x.shape):
                y = norm(x[part])[0].to(dtype)
                hidden = _hidden(y, W1, B1, narrow(hidden_noise, part), kept, part)
                out = torch.addmm(B2, rows(hidden), W2.t()).view_as(y)
                add_dropped(x[part], out, narrow(noise, part), result[part])
        ctx.save_for_backward(x, gamma, beta, w1, b1, w2, hidden_noise, noise, kept)
        ctx.eps, ctx.dtype = eps, dtype
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, beta, w1, b1, w2, hidden_noise, noise, kept = ctx.saved_tensors
        dtype, norm = ctx.dtype, LayerNorm(gamma, beta, ctx.eps)
        gradient = gradients[0].contiguous()
        dx = torch.empty_like(x)
        d_gamma, d_beta, d_w1, d_b1, d_w2 = (torch.zeros_like(p) for p in (gamma, beta, w1, b1, w2))
        d_b2 = torch.zeros_like(beta)
        W1, B1, W2 = (w.to(dtype) for w in (w1, b1, w2))
        if hidden_noise is not None:
            # it is 0 or one scale; where it is 0 the hidden layer is 0, so relu's own rule holds
            W2 = W2 * hidden_noise.max()
        for part in parts(x.shape):
            x_part, g_part = x[part], gradient[part]
            y, mean, rstd = norm(x_part)
            y = y.to(dtype)
            if kept is None:
                hidden = _hidden(y, W1, B1, narrow(hidden_noise, part), None, part)
            else:
                hidden = kept[part]
            hidden = rows(hidden)
            d_out = dropped_gradient(g_part, narrow(noise, part), dtype)
            d_b2 += d_out.sum(0)
            d_w2 += d_out.t().mm(hidden)
            d_hidden = d_out.mm(W2)  # [N, F]
            torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0.0, grad_input=d_hidden)
            d_b1 += d_hidden.sum(0)
            d_w1 += d_hidden.t().mm(rows(y))
            dy = d_hidden.mm(W1).to(x.dtype).view_as(x_part)
            d_part, d_gamma_part, d_beta_part = norm.gradients(dy, x_part, mean, rstd)
            torch.add(d_part, g_part, out=dx[part])
            d_gamma += d_gamma_part
            d_beta += d_beta_part
        return dx, d_gamma, d_beta, d_w1, d_b1, d_w2, d_b2, *[None] * 4


def _hidden(
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    noise: Tensor | None,
    kept: Tensor | None,
    part: Part,
) -> Tensor:
    """Return ``relu(y weight + bias) * noise``, in its place in `kept` if there is one."""
    if kept is None:
        hidden = torch.addmm(bias, rows(y), weight.t()).view(*y.shape[:-1], -1)
    else:
        hidden = kept[part]
        torch.addmm(bias, rows(y), weight.t(), out=rows(hidden))
    hidden.relu_()
    return hidden if noise is None else hidden.mul_(noise)
