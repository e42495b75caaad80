"""``x + mask * FFN(LN(x))`` in blocks of positions (see `jtrans.nn.cpu.blocks`)."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.blocks import Part, as_type, narrow, product_dtype, residual_in_blocks, rows
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.feed_forward import FeedForward


def feed_forward_in_blocks(
    block: FeedForward,
    x: Tensor,
    norm: nn.LayerNorm | None,
    dropout: SharedDropout,
    *,
    keeps_hidden: bool = True,
    scale: float = 1.0,
) -> Tensor:
    """Return ``(x + dropout(FFN(LN(x)))) * scale``.

    Args:
        block: the FFN.
        x: [B, ..., E], three axes at least.
        norm: the layer norm; None without one.
        dropout: dropout of the result.
        scale: of the sum.
        keeps_hidden: save the hidden layer for the backward pass; recomputing it instead is a ninth
            more arithmetic, but frees 4 of 5 numbers per feature.
    """
    dtype = product_dtype(x)
    hidden = x.new_empty(()).expand(*x.shape[:-1], block.inner.out_features)
    hidden_mask = as_type(block.dropout.mask(hidden), dtype)
    saved = x.new_empty(hidden.shape, dtype=dtype) if keeps_hidden else None
    return residual_in_blocks(
        _FeedForward,
        x,
        norm,
        dropout.mask(x),
        *(block.inner.weight, block.inner.bias, block.outer.weight, block.outer.bias),
        *(hidden_mask, saved),
        scale=scale,
    )


class _FeedForward:
    """``(relu(y W1 + b1) * mask) W2 + b2``.

    Args:
        dtype: of products.
        w1: [F, E].
        b1: [F].
        w2: [E, F].
        b2: [E].
        mask: dropout mask of the hidden layer, broadcasts to [B, ..., F]; one positive value
            where it is not 0.
        saved: receives the hidden layer, [B, ..., F]; None to recompute it.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        mask: Tensor | None,
        saved: Tensor | None,
    ) -> None:
        self.weights = (w1, b1, w2, b2)
        self.w1, self.b1, self.w2, self.b2 = (w.to(dtype) for w in self.weights)
        self.mask = mask
        self.saved = saved

    @functools.cached_property
    def gradients(self) -> tuple[Tensor, ...]:
        return tuple(torch.zeros_like(w) for w in self.weights)

    @functools.cached_property
    def scaled_w2(self) -> Tensor:
        # the mask is 0 or one scale; where it is 0 the hidden layer is 0, so relu's own rule holds
        return self.w2 if self.mask is None else self.w2 * self.mask.max()

    def forward(self, y: Tensor, part: Part) -> Tensor:
        return torch.addmm(self.b2, rows(self._hidden(y, part)), self.w2.t())

    def backward(self, y: Tensor, gradient: Tensor, part: Part) -> Tensor:
        d_w1, d_b1, d_w2, d_b2 = self.gradients
        hidden = rows(self._hidden(y, part) if self.saved is None else self.saved[part])
        d_b2 += gradient.sum(0)
        d_w2 += gradient.t().mm(hidden)
        d_hidden = gradient.mm(self.scaled_w2)  # [n, F]
        torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0.0, grad_input=d_hidden)
        d_b1 += d_hidden.sum(0)
        d_w1 += d_hidden.t().mm(rows(y))
        return d_hidden.mm(self.w1)

    def _hidden(self, y: Tensor, part: Part) -> Tensor:
        """Return ``relu(y W1 + b1) * mask``, [..., F], written to `saved` if given."""
        shape = (*y.shape[:-1], len(self.b1))
        hidden = y.new_empty(shape) if self.saved is None else self.saved[part]
        torch.addmm(self.b1, rows(y), self.w1.t(), out=rows(hidden)).relu_()
        mask = narrow(self.mask, part)
        return hidden if mask is None else hidden.mul_(mask)
