"""``x + mask * FFN(LN(x))`` in blocks of positions (see `jtrans.nn.cpu.blocks`)."""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.blocks import Part, as_type, narrow, product_dtype, residual_in_blocks, rows
from jtrans.nn.cpu.products import linear, linear_relu, product, relu_gradient_, sum_of_products
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.feed_forward import FeedForward


def feed_forward_in_blocks(
    block: FeedForward,
    x: Tensor,
    norm: nn.LayerNorm | None,
    dropout: SharedDropout,
    *,
    keeps: bool = True,
    scale: float = 1.0,
) -> Tensor:
    """Return ``(x + dropout(FFN(LN(x)))) * scale``, of the shape of `x`.

    Args:
        block: the FFN.
        x: [B, ..., E], three axes at least.
        norm: the layer norm; None without one.
        dropout: dropout of the result.
        keeps: save the hidden layer for the backward pass. Recomputing it is a ninth more
            arithmetic in a layer of attention and FFN, but saves 4/5 of the memory if F = 4E.
        scale: factor of the sum.
    """
    hidden = x.new_empty(()).expand(*x.shape[:-1], block.inner.out_features)
    hidden_mask = as_type(block.dropout.mask(hidden), product_dtype(x))
    return residual_in_blocks(
        functools.partial(_FeedForward, keeps=keeps),
        x,
        norm,
        dropout.mask(x),
        *(block.inner.weight, block.inner.bias, block.outer.weight, block.outer.bias),
        hidden_mask,
        scale=scale,
    )


@dataclass(eq=False)
class _FeedForward:
    """``(relu(y W1 + b1) * mask) W2 + b2``."""

    dtype: torch.dtype  # type of products
    w1: Tensor  # [F, E]
    b1: Tensor  # [F]
    w2: Tensor  # [E, F]
    b2: Tensor  # [E]
    # dropout mask of the hidden layer, 0 or one positive value, broadcasts to [B, ..., F]
    mask: Tensor | None
    _: KW_ONLY
    keeps: bool  # save the hidden layer of each part, [n, F]; otherwise recompute it

    def __post_init__(self) -> None:
        self.weights = (self.w1, self.b1, self.w2, self.b2)
        self.w1, self.b1, self.w2, self.b2 = (w.to(self.dtype) for w in self.weights)
        self.saved: deque[Tensor] = deque()

    @functools.cached_property
    def gradients(self) -> tuple[Tensor, ...]:
        return tuple(torch.zeros_like(w) for w in self.weights)

    @functools.cached_property
    def scaled_w2(self) -> Tensor:
        # where the mask is 0, `relu_gradient_` clears the gradient; elsewhere it is one scale
        return self.w2 if self.mask is None else self.w2 * self.mask.max()

    def forward(self, y: Tensor, part: Part) -> Tensor:
        hidden = self._hidden(y, part)
        if self.keeps:
            self.saved.append(hidden)
        return linear(hidden, self.w2, self.b2)

    def backward(self, y: Tensor, gradient: Tensor, part: Part) -> Tensor:
        d_w1, d_b1, d_w2, d_b2 = self.gradients
        hidden = self.saved.popleft() if self.keeps else self._hidden(y, part)
        d_b2 += gradient.sum(0)
        d_w2 += sum_of_products(gradient, hidden, d_w2.dtype)
        d_hidden = relu_gradient_(product(gradient, self.scaled_w2), hidden)  # [n, F]
        d_b1 += d_hidden.sum(0)
        d_w1 += sum_of_products(d_hidden, rows(y), d_w1.dtype)
        return product(d_hidden, self.w1)

    def _hidden(self, y: Tensor, part: Part) -> Tensor:
        """Return ``relu(y W1 + b1) * mask`` as rows, [n, F]."""
        hidden = linear_relu(rows(y), self.w1, self.b1)
        mask = narrow(self.mask, part)
        if mask is not None:
            hidden.view(*y.shape[:-1], -1).mul_(mask)
        return hidden
