"""The residual wrapping of a block, with layer norm before or after it (systems.md 0.4)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from jtrans.nn.dropout import SharedDropout


class Residual(nn.Module):
    """Wrap a block: ``x + dropout(f(LN(x)))`` (pre-norm) or ``LN(x + dropout(f(x)))`` (post-norm).

    Args:
        width: size of the last axis, E.
        dropout: the dropout of the block's output.
        pre_norm: which of the two forms.
    """

    def __init__(self, width: int, dropout: SharedDropout, *, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.pre_norm = pre_norm

    def forward(self, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `block` to `x`, [..., E], and return the same shape."""
        if self.pre_norm:
            return self.dropout.add(x, block(self.norm(x)))
        normalised: Tensor = self.norm(self.dropout.add(x, block(x)))
        return normalised
