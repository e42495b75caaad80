"""``x + mask * attention(LN(x))`` in blocks of lines (see `jtrans.nn.cpu.blocks`).

`x`, the queries, keys and values, the weights and the mixed values are saved for the backward pass;
with ``keeps=False`` the last two are recomputed. Lines are short, so a block holds many of them,
and their products are batched.
"""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu import softmax
from jtrans.nn.cpu.blocks import Part, as_type, narrow, product_dtype, residual_in_blocks, rows
from jtrans.nn.cpu.matmul_backend import onednn_for_short_products
from jtrans.nn.cpu.products import linear, product, sum_of_products
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.separable import SourceAttention, TargetAttention, over_lines
from jtrans.nn.softmax import causal_bias


def self_attention_in_blocks(
    block: MultiHeadAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    keeps: bool = True,
) -> Tensor:
    """Return ``x + dropout(attention(LN(x)))``, of the shape of `x`.

    Args:
        block: the attention.
        x: [B, L, E], or a grid, [B, T, S, E].
        norm: the layer norm.
        dropout: dropout of the result.
        bias: 0 or -inf, broadcasts to [B, H, L, L], for a grid to [B, A, H, L, L].
        causal: position l attends to 0..l only.
        keeps: save the weights and the mixed values for the backward pass.
    """
    is_grid = x.dim() == 4

    def as_lines(y: Tensor) -> Tensor:  # [B, A, L, E]
        return y.movedim(block.axis, -2) if is_grid else y.unsqueeze(1)

    lines = as_lines(x)
    if bias is not None and not is_grid:
        bias = bias.unsqueeze(1)
    weights = x.new_empty(()).expand(*lines.shape[:-2], block.heads, *[lines.shape[-2]] * 2)
    weights_mask = block.dropout.mask(weights)
    mask = dropout.mask(x)
    wrapped = residual_in_blocks(
        functools.partial(_Attention, heads=block.heads, causal=causal, keeps=keeps),
        lines,
        norm,
        None if mask is None else as_lines(mask),
        *(block.in_weight, block.in_bias, block.out.weight, block.out.bias),
        *(bias, as_type(weights_mask, product_dtype(x))),
    )
    return wrapped.movedim(-2, block.axis) if is_grid else wrapped.squeeze(1)


def target_attention_in_blocks(
    block: TargetAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    slot_bias: None = None,
    keeps: bool = True,
) -> Tensor:
    """Apply `self_attention_in_blocks` along T of a grid, [B, T, S, E]."""
    return self_attention_in_blocks(block.attention, x, norm, dropout, causal=True, keeps=keeps)


def source_attention_in_blocks(
    block: SourceAttention,
    x: Tensor,
    norm: nn.LayerNorm,
    dropout: SharedDropout,
    *,
    source_bias: Tensor | None,
    keeps: bool = True,
) -> Tensor:
    """Apply `self_attention_in_blocks` along S of a grid, [B, T, S, E]; the bias is [B, S]."""
    bias = over_lines(source_bias)
    return self_attention_in_blocks(block.attention, x, norm, dropout, bias=bias, keeps=keeps)


@dataclass(eq=False)
class _Attention:
    """Attention along the third axis, of B sentences with A lines of L positions each."""

    dtype: torch.dtype  # type of products
    w_in: Tensor  # weights of queries, keys and values, [3E, E]
    b_in: Tensor  # [3E]
    w_out: Tensor  # [E, E]
    b_out: Tensor  # [E]
    bias: Tensor | None  # 0 or -inf, broadcasts to [B, A, H, L, L]
    mask: Tensor | None  # dropout mask of the weights, broadcasts to [B, A, H, L, L]
    _: KW_ONLY
    heads: int  # H
    causal: bool  # position l attends to 0..l only
    keeps: bool  # save the weights and the mixed values too; otherwise recompute them

    def __post_init__(self) -> None:
        self.weights = (self.w_in, self.b_in, self.w_out, self.b_out)
        self.w_in, self.b_in, self.w_out, self.b_out = (w.to(self.dtype) for w in self.weights)
        self.saved: deque[Tensor] = deque()

    @functools.cached_property
    def gradients(self) -> tuple[Tensor, ...]:
        return tuple(torch.zeros_like(w) for w in self.weights)

    def forward(self, y: Tensor, part: Part) -> Tensor:
        projected = linear(rows(y), self.w_in, self.b_in).view(*y.shape[:-1], -1)
        qkv = _by_head(projected, self.heads, 3).contiguous()
        self.saved.append(qkv)
        with onednn_for_short_products(self.dtype):
            weights, mixed = self._attend(qkv, part)
        if self.keeps:
            self.saved += (weights, mixed)
        return linear(mixed, self.w_out, self.b_out)

    def backward(self, y: Tensor, gradient: Tensor, part: Part) -> Tensor:
        d_w_in, d_b_in, d_w_out, d_b_out = self.gradients
        d_mixed = _by_head(product(gradient, self.w_out).view_as(y), self.heads, 1)[0].contiguous()
        qkv = self.saved.popleft()
        with onednn_for_short_products(self.dtype):
            if self.keeps:
                weights, mixed = self.saved.popleft(), self.saved.popleft()
            else:
                weights, mixed = self._attend(qkv, part)
            d_qkv = _join_heads(self._gradients(qkv, weights, d_mixed, part))
        d_b_out += gradient.sum(0)
        d_w_out += sum_of_products(gradient, mixed, d_w_out.dtype)
        d_b_in += d_qkv.sum(0)
        d_w_in += sum_of_products(d_qkv, rows(y), d_w_in.dtype)
        return product(d_qkv, self.w_in)

    def _attend(self, qkv: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        """Return the weights of a part, [H, b, a, L, L], and the mixed values as rows, [n, E]."""
        *lines, L, D = qkv.shape[1:]
        q, k, v = (_flat(each) for each in qkv)
        unread = q.new_empty(1, 1, 1)  # beta is 0
        scores = torch.baddbmm(unread, q, k.mT, beta=0.0, alpha=D**-0.5).view(*lines, L, L)
        scores = scores.to(torch.promote_types(self.dtype, torch.float32))
        bias = narrow(self.bias, part)
        if bias is not None:
            scores += bias.movedim(2, 0)
        if self.causal and L > 1:
            scores += causal_bias(L, scores.device)
        weights = softmax.forward(scores).to(self.dtype)
        mixed = torch.bmm(_flat(_dropped(weights, self._mask(part))), v)
        return weights, _join_heads(mixed.view(1, *qkv.shape[1:]))

    def _gradients(self, qkv: Tensor, weights: Tensor, d_mixed: Tensor, part: Part) -> Tensor:
        """Return the gradient of `qkv`, [3, H, b, a, L, D]."""
        q, k, v = (_flat(each) for each in qkv)
        scale = qkv.shape[-1] ** -0.5
        d_qkv = torch.empty_like(qkv)
        d_q, d_k, d_v = (_flat(each) for each in d_qkv)
        mask, precise = self._mask(part), torch.promote_types(self.dtype, torch.float32)
        torch.bmm(_flat(_dropped(weights, mask)).mT, _flat(d_mixed), out=d_v)
        d_weights = _dropped(torch.bmm(_flat(d_mixed), v.mT).view_as(weights), mask)
        d_scores = softmax.backward(d_weights.to(precise), weights.to(precise))
        d_scores = _flat(d_scores.to(self.dtype))
        torch.baddbmm(d_q, d_scores, k, beta=0.0, alpha=scale, out=d_q)
        torch.baddbmm(d_k, d_scores.mT, q, beta=0.0, alpha=scale, out=d_k)
        return d_qkv

    def _mask(self, part: Part) -> Tensor | None:
        mask = narrow(self.mask, part)
        return None if mask is None else mask.movedim(2, 0)


def _flat(x: Tensor) -> Tensor:
    """View [..., L, D] as [n, L, D]."""
    return x.view(-1, *x.shape[-2:])


def _dropped(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else weights * mask


def _by_head(x: Tensor, heads: int, count: int) -> Tensor:
    """View [b, a, L, count E] by heads: [count, H, b, a, L, D]."""
    return x.view(*x.shape[:-1], count, heads, -1).permute(3, 4, 0, 1, 2, 5)


def _join_heads(x: Tensor) -> Tensor:
    """Undo `_by_head`: [count, H, b, a, L, D] to rows [b a L, count E]."""
    count, H, b, a, L, D = x.shape
    return x.permute(2, 3, 4, 0, 1, 5).reshape(b * a * L, count * H * D)
