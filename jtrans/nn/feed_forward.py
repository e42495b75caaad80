"""The position-wise feed-forward block: ``dropout(relu(x W1 + b1)) W2 + b2``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jtrans.nn.cpu.blocks import LayerNorm
from jtrans.nn.cpu.feed_forward import feed_forward_in_blocks
from jtrans.nn.dropout import SharedDropout


class FeedForward(nn.Module):
    """Two linear maps around a ReLU.

    Args:
        width: E.
        ffn_width: size of the hidden layer, F.
        dropout: dropout of the hidden layer.

    Attributes:
        keep_hidden: keep the hidden layer for the backward pass (faster) or compute it again
            (4F fewer bytes per position in float32).
    """

    def __init__(self, width: int, ffn_width: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.inner = nn.Linear(width, ffn_width)
        self.outer = nn.Linear(ffn_width, width)
        self.dropout = dropout
        self.keep_hidden = True
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map every vector, [..., E] -> [..., E]."""
        if self.keep_hidden or not torch.is_grad_enabled():
            return self._map(x)
        return checkpoint(self._map, x, use_reentrant=False)  # type: ignore[no-any-return]

    def in_blocks(self, x: Tensor, norm: LayerNorm, dropout: SharedDropout) -> Tensor:
        """Return ``x + dropout(FFN(LN(x)))``, the same in blocks of positions."""
        hidden = x.new_empty(()).expand(*x.shape[:-1], self.inner.out_features)
        hidden_noise = self.dropout.noise(hidden) if self.dropout.is_on else None
        return feed_forward_in_blocks(
            x,
            norm,
            (self.inner.weight, self.inner.bias),
            (self.outer.weight, self.outer.bias),
            hidden_noise=hidden_noise,
            noise=dropout.noise(x) if dropout.is_on else None,
            keep_hidden=self.keep_hidden,
        )

    def _map(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.inner(x))  # [..., F]
        out: Tensor = self.outer(self.dropout(hidden))  # [..., E]
        return out
