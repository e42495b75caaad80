"""Reduction of the joint grid to one vector per target position (docs/systems.md 2.6)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.linear import linear
from jtrans.nn.recorder import is_recording, record
from jtrans.nn.softmax import softmax


class AttentionReduction(nn.Module):
    """A weighted mean over source positions, with one distribution per feature.

    Feature e of the result is a mean of feature e only, with weights computed from all features:
    ``A = softmax_i(Z W^T); R = sum_i A_i * Z_i``.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, E] to [B, T, E]; the weights are [B, T, S, E].

        Args:
            grid: normalised joint states, Z, [B, T, S, E].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
        """
        scores = linear(grid, self.weight)  # a = Z W^T, [B, T, S, E]
        if source_bias is not None:
            scores = scores + source_bias[:, None, :, None]
        weights = softmax(scores, 2)  # A
        record(self, weights)
        return (weights * grid).sum(dim=2)  # R, [B, T, E]


class MaxReduction(nn.Module):
    """The maximum of every feature over real source positions."""

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, E] to [B, T, E]; equal maxima share a weight of 1, [B, T, S, E]."""
        if source_bias is not None:
            grid = grid + source_bias[:, None, :, None]
        values = grid.max(dim=2).values  # [B, T, E]
        if is_recording():
            winners = (grid == values.unsqueeze(2)).float()
            record(self, winners / winners.sum(dim=2, keepdim=True))
        return values
