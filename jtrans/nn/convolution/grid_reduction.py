"""Reductions of the grid to one vector per target position in pervasive attention.

All leave out padding (docs/systems.md 9.2), and record the share of each source position in the
result, [B, T, S], or of a maximum in each feature, [B, T, S, C].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import record
from jtrans.nn.reduction import MaxReduction
from jtrans.nn.softmax import softmax


class GatedMaxReduction(nn.Module):
    """The maximum over the source of a gated linear unit.

    Args:
        gate: maps a cell, [..., C], to values and gates, [..., 2C].
    """

    def __init__(self, gate: nn.Linear) -> None:
        super().__init__()
        self.gate = gate
        self.maximum = MaxReduction()

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, C] to [B, T, C].

        Args:
            grid: [B, T, S, C].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
        """
        return self.maximum(F.glu(self.gate(grid)), source_bias)  # type: ignore[no-any-return]


class PositionReduction(nn.Module):
    """A weighted sum over the source with one weight per position.

    Args:
        scores: maps a cell, [..., C], to its score, [..., 1].
        dropout: dropout of the weights.
        is_scaled: whether the sum is divided by sqrt(S), S real positions.
    """

    def __init__(self, scores: nn.Module, dropout: SharedDropout, *, is_scaled: bool) -> None:
        super().__init__()
        self.scores = scores
        self.dropout = dropout
        self.is_scaled = is_scaled

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, C] to [B, T, C], as in `GatedMaxReduction`."""
        scores = self.scores(grid).squeeze(-1)  # [B, T, S]
        if source_bias is not None:
            scores = scores + source_bias[:, None]
        weights = softmax(scores, 2)
        record(self, weights)
        total = torch.einsum("bts,btsc->btc", self.dropout(weights).to(grid.dtype), grid)
        return total * source_lengths(grid, source_bias) ** -0.5 if self.is_scaled else total


class MeanReduction(nn.Module):
    """The sum over the source, divided by its length to the given power; power 1 gives the mean."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, C] to [B, T, C], as in `GatedMaxReduction`."""
        lengths = source_lengths(grid, source_bias)  # [B, 1, 1] or []
        real = torch.ones(grid.shape[:3], dtype=grid.dtype, device=grid.device)
        if source_bias is not None:
            real = real * (source_bias == 0.0)[:, None]
        record(self, real / lengths)
        return torch.einsum("bts,btsc->btc", real, grid) * lengths**-self.power


class MaxAttentionReduction(nn.Module):
    """The maximum over the source and a weighted sum, concatenated: [B, T, 2C]."""

    def __init__(self, attention: PositionReduction) -> None:
        super().__init__()
        self.maximum = MaxReduction()
        self.attention = attention

    def forward(self, grid: Tensor, source_bias: Tensor | None) -> Tensor:
        """Reduce [B, T, S, C] to [B, T, 2C], as in `GatedMaxReduction`."""
        parts = [self.maximum(grid, source_bias), self.attention(grid, source_bias)]
        return torch.cat(parts, dim=-1)


def source_lengths(grid: Tensor, source_bias: Tensor | None) -> Tensor:
    """Return the number of real source positions by sentence, [B, 1, 1]; [] without padding."""
    if source_bias is None:
        return grid.new_tensor(float(grid.shape[2]))
    return (source_bias == 0.0).sum(1).to(grid.dtype)[:, None, None]
