"""The position-wise feed-forward block (docs/systems.md 0.4)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.linear import Linear
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.memory import require_memory


class FeedForward(nn.Module):
    """Two linear maps around a ReLU: FFN(x) = Drop(relu(x W_1 + b_1)) W_2 + b_2.

    Args:
        width: E.
        ffn_width: size of the hidden layer, F.
        dropout: dropout of the hidden layer.
    """

    def __init__(self, width: int, ffn_width: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.inner = Linear(width, ffn_width)
        self.outer = Linear(ffn_width, width)
        self.dropout = dropout
        for each in (self.inner, self.outer):
            nn.init.xavier_uniform_(each.weight)
            nn.init.zeros_(each.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map every vector, [..., E] -> [..., E]."""
        # before and after the ReLU
        size = 2 * x.element_size() * x.shape[:-1].numel() * self.inner.out_features
        require_memory(size, x.device, "hidden layers")
        hidden = torch.relu(self.inner(x))  # relu(x W_1 + b_1), [..., F]
        return self.outer(self.dropout(hidden))  # type: ignore[no-any-return]
