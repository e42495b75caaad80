"""``x + noise * attention(LN(x))`` in blocks of lines (see `jtrans.nn.cpu.blocks`).

Kept for the backward pass are `x` and the queries, keys and values; what attention makes of
them is computed again. Lines are short, so a block holds many of them, and their
products are batched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from jtrans.nn.axis_attention import at_least_float32, causal_bias
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
from jtrans.nn.device import short_products


def attention_in_blocks(
    x: Tensor,
    norm: LayerNorm,
    project_in: tuple[Tensor, Tensor],
    project_out: tuple[Tensor, Tensor],
    heads: int,
    *,
    bias: Tensor | None,
    causal: bool,
    weights_noise: Tensor | None,
    noise: Tensor | None,
) -> Tensor:
    """Return ``x + noise * attention(LN(x))``, attending along the third axis.

    Args:
        x: lines of positions, [B, A, L, E], strided views welcome.
        norm: the layer norm.
        project_in: weight [3E, E] and bias [3E] of queries, keys and values.
        project_out: weight [E, E] and bias [E].
        heads: H.
        bias: 0 or -inf, broadcasts to [B, A, H, L, L].
        causal: position l sees 0..l only.
        weights_noise: dropout noise of the weights, broadcasts to [B, A, H, L, L].
        noise: dropout noise of the result, broadcasts to [B, A, L, E].
    """
    mask = _Mask(bias, weights_noise, causal)
    wrapped: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        x, *norm[:2], *project_in, *project_out, noise, norm.eps, heads, mask
    )
    return wrapped


class _Mask(NamedTuple):
    """What keeps positions from seeing others, and attention dropout."""

    bias: Tensor | None
    noise: Tensor | None
    causal: bool

    def weights(self, qkv: Tensor, part: Part) -> tuple[Tensor, Tensor | None]:
        """Return the weights of a part, [H, b, a, L, L], and their noise."""
        *lines, L, D = qkv.shape[1:]
        scores = _product(_flat(qkv[0]), _flat(qkv[1]).mT, scale=D**-0.5).view(*lines, L, L)
        bias, noise = narrow(self.bias, part), narrow(self.noise, part)
        if bias is not None:
            scores += bias.movedim(2, 0)
        if self.causal and L > 1:
            scores += causal_bias(L, scores.device)
        weights = torch.softmax(scores, -1, dtype=at_least_float32(scores.dtype))
        return weights, None if noise is None else noise.movedim(2, 0)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        w_in: Tensor,
        b_in: Tensor,
        w_out: Tensor,
        b_out: Tensor,
        noise: Tensor | None,
        eps: float,
        heads: int,
        mask: _Mask,
    ) -> Tensor:
        dtype, norm = product_dtype(x), LayerNorm(gamma, beta, eps)
        result = torch.empty_like(x)  # of the same strides
        kept = torch.empty(3 * x.numel(), dtype=dtype)  # queries, keys and values of all parts
        free = kept
        with torch.autocast("cpu", enabled=False):
            W_in, B_in, W_out, B_out = (w.to(dtype) for w in (w_in, b_in, w_out, b_out))
            noise = as_type(noise, dtype)
            for part in parts(x.shape):
                x_part = x[part].contiguous()
                y = norm(x_part)[0].to(dtype)
                qkv = torch.addmm(B_in, rows(y), W_in.t())
                room, free = free[: qkv.numel()], free[qkv.numel() :]
                qkv = _split(qkv.view(*y.shape[:-1], -1), heads, 3, room)
                with short_products(dtype):
                    p, p_noise = mask.weights(qkv, part)
                    mixed = _mix(_dropped(p, p_noise, dtype), qkv)
                out = torch.addmm(B_out, mixed, W_out.t()).view_as(y)
                add_dropped(x_part, out, narrow(noise, part), result[part])
        ctx.save_for_backward(x, gamma, beta, w_in, w_out, mask.bias, mask.noise, noise, kept)
        ctx.eps, ctx.heads, ctx.causal, ctx.dtype = eps, heads, mask.causal, dtype
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, beta, w_in, w_out, bias, weights_noise, noise, kept = ctx.saved_tensors
        dtype, norm = ctx.dtype, LayerNorm(gamma, beta, ctx.eps)
        mask = _Mask(bias, weights_noise, ctx.causal)
        gradient = gradients[0]
        dx = torch.empty_like(x)
        d_gamma, d_beta, d_w_in, d_w_out = (torch.zeros_like(p) for p in (gamma, beta, w_in, w_out))
        d_b_in, d_b_out = w_in.new_zeros(len(w_in)), w_out.new_zeros(len(w_out))
        W_in, W_out = w_in.to(dtype), w_out.to(dtype)
        for part in parts(x.shape):
            x_part, g_part = x[part].contiguous(), gradient[part].contiguous()
            qkv, kept = kept[: 3 * x_part.numel()], kept[3 * x_part.numel() :]
            qkv = qkv.view(3, ctx.heads, *x_part.shape[:-1], -1)
            d_out = dropped_gradient(g_part, narrow(noise, part), dtype)
            d_mixed = _split(d_out.mm(W_out).view_as(x_part), ctx.heads, 1)[0]
            mixed, d_qkv = _mix_gradients(qkv, d_mixed, mask, part)
            d_b_out += d_out.sum(0)
            d_w_out += d_out.t().mm(mixed)
            y, mean, rstd = norm(x_part)
            d_b_in += d_qkv.sum(0)
            d_w_in += d_qkv.t().mm(rows(y.to(dtype)))
            dy = d_qkv.mm(W_in).to(x.dtype).view_as(x_part)
            d_part, d_gamma_part, d_beta_part = norm.gradients(dy, x_part, mean, rstd)
            torch.add(d_part, g_part, out=dx[part])
            d_gamma += d_gamma_part
            d_beta += d_beta_part
        return dx, d_gamma, d_beta, d_w_in, d_b_in, d_w_out, d_b_out, *[None] * 4


def _mix_gradients(qkv: Tensor, d_mixed: Tensor, mask: _Mask, part: Part) -> tuple[Tensor, Tensor]:
    """Return what attention made, [N, E], and the gradient of its input, [N, 3E], as rows."""
    q, k, v = (_flat(part_) for part_ in qkv)
    dtype, scale = qkv.dtype, qkv.shape[-1] ** -0.5
    d_qkv = torch.empty_like(qkv)
    d_q, d_k, d_v = (_flat(part_) for part_ in d_qkv)
    with short_products(dtype):
        p, p_noise = mask.weights(qkv, part)
        weights = _dropped(p, p_noise, dtype)
        mixed = _mix(weights, qkv)
        torch.bmm(_flat(weights).mT, _flat(d_mixed), out=d_v)
        d_p = torch.bmm(_flat(d_mixed), v.mT).view_as(p)
        d_p = _dropped(d_p, p_noise, p.dtype)
        d_scores = _flat(torch._softmax_backward_data(d_p, p, -1, p.dtype).to(dtype))
        torch.baddbmm(d_q, d_scores, k, beta=0.0, alpha=scale, out=d_q)
        torch.baddbmm(d_k, d_scores.mT, q, beta=0.0, alpha=scale, out=d_k)
    return mixed, _join(d_qkv)


def _mix(weights: Tensor, qkv: Tensor) -> Tensor:
    """Return the weighted means of the values as rows, [N, E]."""
    mixed = torch.bmm(_flat(weights), _flat(qkv[2]))
    return _join(mixed.view(1, *qkv.shape[1:]))


def _product(left: Tensor, right: Tensor, *, scale: float) -> Tensor:
    """Return ``scale * left @ right`` of matrices [n, ., .]."""
    nothing = left.new_empty(1, 1, 1)
    return torch.baddbmm(nothing, left, right, beta=0.0, alpha=scale)


def _flat(x: Tensor) -> Tensor:
    """View [..., L, D] as [n, L, D]."""
    return x.view(-1, *x.shape[-2:])


def _dropped(weights: Tensor, noise: Tensor | None, dtype: torch.dtype) -> Tensor:
    return (weights if noise is None else weights * noise).to(dtype)


def _split(x: Tensor, heads: int, count: int, room: Tensor | None = None) -> Tensor:
    """Cut [b, a, L, count E] by heads: [count, H, b, a, L, D], if asked in `room`."""
    b, a, L, width = x.shape
    parted = x.view(b, a, L, count, heads, width // count // heads).permute(3, 4, 0, 1, 2, 5)
    return parted.contiguous() if room is None else room.view(parted.shape).copy_(parted)


def _join(heads: Tensor) -> Tensor:
    """Undo `_split`: [count, H, b, a, L, D] to rows [b a L, count E]."""
    count, H, b, a, L, D = heads.shape
    return heads.permute(2, 3, 4, 0, 1, 5).reshape(b * a * L, count * H * D)
