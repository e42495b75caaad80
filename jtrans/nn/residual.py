"""The residual wrapping of a block, with layer norm before or after it (docs/systems.md 0.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.fast import compute, form_in_blocks


class Residual(nn.Module):
    """Wrap a block: ``x + dropout(f(LN(x)))`` (pre-norm) or ``LN(x + dropout(f(x)))`` (post-norm).

    Args:
        width: size of the last axis, E.
        dropout: the dropout of the block's output.
        pre_norm: whether the norm comes before the block.
    """

    def __init__(self, width: int, dropout: SharedDropout, *, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.pre_norm = pre_norm
        self.saves_memory = False  # set by `layer.set_recompute`, read by `fast`

    def forward(self, x: Tensor, block: Callable[..., Tensor], **arguments: Any) -> Tensor:
        """Apply `block` to `x`, [..., E], and return the same shape.

        Args:
            x: the running state.
            block: f, called with `x` or LN(x) and the further arguments.
            arguments: further arguments of the block.
        """
        arguments["saves_memory"] = self.saves_memory
        if not self.pre_norm:
            x = self.dropout.add(x, compute(block, x, **arguments))  # x + Drop(f(x))
            return self.norm(x)  # type: ignore[no-any-return]
        in_blocks = form_in_blocks(block, x, **arguments)
        if in_blocks is not None:
            return in_blocks(x, self.norm, self.dropout)
        return self.dropout.add(x, compute(block, self.norm(x), **arguments))  # x + Drop(f(LN(x)))
