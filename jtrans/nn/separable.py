"""Separable attention on the joint grid [B, T, S, E] (Li et al. 2020; docs/systems.md 2.3).

The same multi-head attention along one axis, the other axis being part of the batch:
target attention along T (causal), source attention along S (padding masked).
"""

from __future__ import annotations

from torch import Tensor, nn

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.cpu.blocks import LayerNorm
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
        slot_bias: Tensor | None = None,
    ) -> Tensor:
        """Mix along T.

        Args:
            x: the grid, [B, T, S, E]; with a cache the next target position of the hypotheses
                of each sentence, [B, beam, S, E].
            cache: earlier target positions, in slots.
            slot_bias: 0 on slots that a hypothesis sees, -inf on others, [B, beam, slots].
        """
        bias = None if slot_bias is None else slot_bias[:, None, None]
        mixed: Tensor = self.attention(x, bias=bias, causal=cache is None, cache=cache)
        return mixed

    def in_blocks(self, x: Tensor, norm: LayerNorm, dropout: SharedDropout) -> Tensor:
        """Return ``x + dropout(target attention of LN(x))``, in blocks of lines."""
        return self.attention.in_blocks(x, norm, dropout, causal=True)


class SourceAttention(nn.Module):
    """For every target position: attention along the source axis, padding masked."""

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, axis=2)

    def forward(self, x: Tensor, source_bias: Tensor | None) -> Tensor:
        """Mix along S.

        Args:
            x: the grid, [B, T, S, E].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
        """
        bias = None if source_bias is None else source_bias[:, None, None, None, :]
        return self.attention(x, bias=bias)  # type: ignore[no-any-return]

    def in_blocks(
        self, x: Tensor, norm: LayerNorm, dropout: SharedDropout, *, source_bias: Tensor | None
    ) -> Tensor:
        """Return ``x + dropout(source attention of LN(x))``, in blocks of lines."""
        bias = None if source_bias is None else source_bias[:, None, None, None, :]
        return self.attention.in_blocks(x, norm, dropout, bias=bias)
