"""Separable attention on the joint grid [B, T, S, E] (Li et al. 2020; systems.md 2.3).

The same multi-head attention along one axis, the other axis being part of the batch:
target attention along T (causal), source attention along S (padding masked).
"""

from __future__ import annotations

from torch import Tensor, nn

from jtrans.nn.attention import KeyValueCache, MultiHeadAttention
from jtrans.nn.dropout import SharedDropout


class TargetAttention(nn.Module):
    """For every source position: attention along the target axis, causal.

    Columns of padded source positions are computed but never read by real positions.
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, axis=1)

    def forward(
        self,
        x: Tensor,
        *,
        cache: KeyValueCache | None = None,
        keep: list[Tensor] | None = None,
    ) -> Tensor:
        """Mix along T.

        Args:
            x: the grid, [B, T, S, E]; the next target position only, T = 1, with a cache.
            cache: earlier target positions.
            keep: receives the weights [B, S, H, T, T].
        """
        return self.attention(x, causal=cache is None, cache=cache, keep=keep)  # type: ignore[no-any-return]


class SourceAttention(nn.Module):
    """For every target position: attention along the source axis, padding masked."""

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, axis=2)

    def forward(
        self, x: Tensor, source_bias: Tensor | None, *, keep: list[Tensor] | None = None
    ) -> Tensor:
        """Mix along S.

        Args:
            x: the grid, [B, T, S, E].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
            keep: receives the weights [B, T, H, S, S].
        """
        bias = None if source_bias is None else source_bias[:, None, None, None, :]
        return self.attention(x, bias=bias, keep=keep)  # type: ignore[no-any-return]
