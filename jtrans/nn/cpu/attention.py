"""``x + mask * attention(LN(x))`` in blocks of lines (see `jtrans.nn.cpu.blocks`).

`x` and the queries, keys and values are saved for the backward pass; the weights and all that
follows are recomputed. Lines are short, so a block holds many of them, and their products
are batched.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu.blocks import Part, narrow, product_dtype, residual_in_blocks, rows
from jtrans.nn.cpu.matmul_backend import onednn_for_short_products
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.separable import SourceAttention, TargetAttention, over_lines
from jtrans.nn.softmax import causal_bias, softmax


def self_attention_in_blocks(
    block: MultiHeadAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    cache: None = None,
) -> Tensor:
    """Return ``x + dropout(attention(LN(x)))``.

    Args:
        block: the attention.
        x: [B, L, E], or a grid of four axes.
        norm: the layer norm.
        dropout: dropout of the result.
        bias: 0 or -inf, broadcasts to [B, H, L, L], for a grid to [B, A, H, L, L].
        causal: position l attends to 0..l only.
        cache: none in training.
    """
    is_grid = x.dim() == 4

    def as_lines(y: Tensor) -> Tensor:  # [B, A, L, E]
        return y.movedim(block.axis, -2) if is_grid else y.unsqueeze(1)

    lines = as_lines(x)
    if bias is not None and not is_grid:
        bias = bias.unsqueeze(1)
    weights = x.new_empty(()).expand(*lines.shape[:-2], block.heads, *[lines.shape[-2]] * 2)
    dtype = product_dtype(x)
    weights_mask = block.dropout.mask(weights)
    mask = dropout.mask(x)
    wrapped = residual_in_blocks(
        functools.partial(_Attention, heads=block.heads, causal=causal),
        lines,
        norm,
        None if mask is None else as_lines(mask),
        *(block.in_weight, block.in_bias, block.out.weight, block.out.bias),
        *(bias, weights_mask, torch.empty(3 * x.numel(), dtype=dtype)),
    )
    return wrapped.movedim(-2, block.axis) if is_grid else wrapped.squeeze(1)


def target_attention_in_blocks(
    block: TargetAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    cache: None = None,
    slot_bias: None = None,
) -> Tensor:
    """Return ``x + dropout(target attention of LN(x))``, see `self_attention_in_blocks`."""
    return self_attention_in_blocks(block.attention, x, norm, dropout, causal=True)


def source_attention_in_blocks(
    block: SourceAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    source_bias: Tensor | None,
) -> Tensor:
    """Return ``x + dropout(source attention of LN(x))``, see `self_attention_in_blocks`."""
    return self_attention_in_blocks(block.attention, x, norm, dropout, bias=over_lines(source_bias))


class _Attention:
    """Attention along the third axis.

    Args:
        dtype: of products.
        w_in: of queries, keys and values, [3E, E].
        b_in: [3E].
        w_out: [E, E].
        b_out: [E].
        bias: 0 or -inf, broadcasts to [B, A, H, L, L].
        mask: dropout mask of the weights, broadcasts to [B, A, H, L, L].
        saved: queries, keys and values of all parts, concatenated.
        heads: H.
        causal: position l attends to 0..l only.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        w_in: Tensor,
        b_in: Tensor,
        w_out: Tensor,
        b_out: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        saved: Tensor,
        *,
        heads: int,
        causal: bool,
    ) -> None:
        self.dtype = dtype
        self.weights = (w_in, b_in, w_out, b_out)
        self.w_in, self.b_in, self.w_out, self.b_out = (w.to(dtype) for w in self.weights)
        self.bias = bias
        self.mask = mask
        self.saved = saved
        self.heads = heads
        self.causal = causal

    @functools.cached_property
    def gradients(self) -> tuple[Tensor, ...]:
        return tuple(torch.zeros_like(w) for w in self.weights)

    def forward(self, y: Tensor, part: Part) -> Tensor:
        projected = torch.addmm(self.b_in, rows(y), self.w_in.t()).view(*y.shape[:-1], -1)
        parted = _parted(projected, self.heads, 3)
        qkv = self._take(projected.numel()).view(parted.shape).copy_(parted)
        with onednn_for_short_products(self.dtype):
            weights, mask = self._attend(qkv, part)
            mixed = _mix(_dropped(weights, mask, self.dtype), qkv)
        return torch.addmm(self.b_out, mixed, self.w_out.t())

    def backward(self, y: Tensor, gradient: Tensor, part: Part) -> Tensor:
        d_w_in, d_b_in, d_w_out, d_b_out = self.gradients
        qkv = self._take(3 * y.numel()).view(3, self.heads, *y.shape[:-1], -1)
        d_mixed = _parted(gradient.mm(self.w_out).view_as(y), self.heads, 1)[0].contiguous()
        mixed, d_qkv = self._gradients(qkv, d_mixed, part)
        d_b_out += gradient.sum(0)
        d_w_out += gradient.t().mm(mixed)
        d_b_in += d_qkv.sum(0)
        d_w_in += d_qkv.t().mm(rows(y))
        return d_qkv.mm(self.w_in)

    def _take(self, count: int) -> Tensor:
        """Return the next `count` saved numbers: both passes take the parts in the same order."""
        taken, self.saved = self.saved[:count], self.saved[count:]
        return taken

    def _attend(self, qkv: Tensor, part: Part) -> tuple[Tensor, Tensor | None]:
        """Return the weights of a part, [H, b, a, L, L], and their dropout mask."""
        *lines, L, D = qkv.shape[1:]
        q, k = _flat(qkv[0]), _flat(qkv[1])
        zero = q.new_empty(1, 1, 1)  # times beta: not read
        scores = torch.baddbmm(zero, q, k.mT, beta=0.0, alpha=D**-0.5).view(*lines, L, L)
        bias, mask = narrow(self.bias, part), narrow(self.mask, part)
        if bias is not None:
            scores += bias.movedim(2, 0)
        if self.causal and L > 1:
            scores += causal_bias(L, scores.device)
        return softmax(scores, -1), None if mask is None else mask.movedim(2, 0)

    def _gradients(self, qkv: Tensor, d_mixed: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        """Return the mixed values, [n, E], and the gradient of `qkv`, [n, 3E], as rows."""
        q, k, v = (_flat(each) for each in qkv)
        scale = qkv.shape[-1] ** -0.5
        d_qkv = torch.empty_like(qkv)
        d_q, d_k, d_v = (_flat(each) for each in d_qkv)
        with onednn_for_short_products(self.dtype):
            p, mask = self._attend(qkv, part)
            weights = _dropped(p, mask, self.dtype)
            mixed = _mix(weights, qkv)
            torch.bmm(_flat(weights).mT, _flat(d_mixed), out=d_v)
            d_p = torch.bmm(_flat(d_mixed), v.mT).view_as(p)
            d_p = _dropped(d_p, mask, p.dtype)
            d_scores = _flat(torch._softmax_backward_data(d_p, p, -1, p.dtype).to(self.dtype))
            torch.baddbmm(d_q, d_scores, k, beta=0.0, alpha=scale, out=d_q)
            torch.baddbmm(d_k, d_scores.mT, q, beta=0.0, alpha=scale, out=d_k)
        return mixed, _joined(d_qkv)


def _mix(weights: Tensor, qkv: Tensor) -> Tensor:
    """Return the weighted means of the values as rows, [n, E]."""
    mixed = torch.bmm(_flat(weights), _flat(qkv[2]))
    return _joined(mixed.view(1, *qkv.shape[1:]))


def _flat(x: Tensor) -> Tensor:
    """View [..., L, D] as [n, L, D]."""
    return x.view(-1, *x.shape[-2:])


def _dropped(weights: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    return (weights if mask is None else weights * mask).to(dtype)


def _parted(x: Tensor, heads: int, count: int) -> Tensor:
    """View [b, a, L, count E] by heads: [count, H, b, a, L, D]."""
    return x.view(*x.shape[:-1], count, heads, -1).permute(3, 4, 0, 1, 2, 5)


def _joined(parted: Tensor) -> Tensor:
    """Undo `_parted`: [count, H, b, a, L, D] to rows [b a L, count E]."""
    count, H, b, a, L, D = parted.shape
    return parted.permute(2, 3, 4, 0, 1, 5).reshape(b * a * L, count * H * D)
