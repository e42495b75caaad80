"""Separable attention on the joint grid [B, T, S, E] (Li et al. 2020; docs/systems.md 2.3).

The same multi-head attention along one axis, the other axis being part of the batch:
target attention along T (causal), source attention along S (padding masked).
"""

from __future__ import annotations

from torch import Tensor, nn

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.dropout import SharedDropout


class TargetAttention(nn.Module):
    """For every source position i: Y[b,:,i] = MHA(X[b,:,i]), causal.

    Columns of padded source positions are computed but never read by real positions.
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, axis=1)

    def forward(
        self, x: Tensor, *, cache: KeyValueCache | None = None, slot_bias: Tensor | None = None
    ) -> Tensor:
        """Mix along T and return the shape of `x`; the weights are [B, S, H, T, T].

        Args:
            x: the grid, [B, T, S, E]; with a cache the next target position of the hypotheses
                of each sentence, [B, beam, S, E].
            cache: earlier target positions, in slots.
            slot_bias: 0 on slots that a hypothesis attends to, -inf on others, [B, beam, slots].
        """
        bias = None if slot_bias is None else slot_bias[:, None, None]  # [B, 1, 1, beam, slots]
        return self.attention(x, bias=bias, causal=cache is None, cache=cache)  # type: ignore[no-any-return]


class SourceAttention(nn.Module):
    """For every target position j: Y[b,j] = MHA(X[b,j]), padding masked."""

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, axis=2)

    def forward(self, x: Tensor, source_bias: Tensor | None) -> Tensor:
        """Mix along S and return the shape of `x`; the weights are [B, T, H, S, S].

        Args:
            x: the grid, [B, T, S, E].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
        """
        return self.attention(x, bias=over_lines(source_bias))  # type: ignore[no-any-return]


def over_lines(source_bias: Tensor | None) -> Tensor | None:
    """View a bias of keys, [B, S], so that it broadcasts to [B, T, H, S, S]: [B, 1, 1, 1, S]."""
    return None if source_bias is None else source_bias[:, None, None, None]
