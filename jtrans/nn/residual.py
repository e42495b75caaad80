"""The residual wrapping of a block, with layer norm before or after it (docs/systems.md 0.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from jtrans.nn.cpu.blocks import LayerNorm, is_blockwise
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import is_recording


@runtime_checkable
class BlockwiseModule(Protocol):
    """A block with a second form that trains faster and in less memory on a CPU."""

    def in_blocks(
        self, x: Tensor, norm: LayerNorm, dropout: SharedDropout, **arguments: Any
    ) -> Tensor:
        """Return ``x + dropout(f(LN(x)))``."""


class Residual(nn.Module):
    """Wrap a block: ``x + dropout(f(LN(x)))`` (pre-norm) or ``LN(x + dropout(f(x)))`` (post-norm).

    Args:
        width: size of the last axis, E.
        dropout: the dropout of the block's output.
        pre_norm: which of the two forms.

    Attributes:
        saves_memory: train in blocks also where that costs time.
    """

    def __init__(self, width: int, dropout: SharedDropout, *, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.pre_norm = pre_norm
        self.saves_memory = False

    def forward(self, x: Tensor, block: Callable[..., Tensor], **arguments: Any) -> Tensor:
        """Apply `block` to `x`, [..., E], and return the same shape.

        Args:
            x: what goes in.
            block: f; it gets the further arguments.
            arguments: of the block.
        """
        if not self.pre_norm:
            normalised: Tensor = self.norm(self.dropout.add(x, block(x, **arguments)))
            return normalised
        is_plain = is_recording() or "cache" in arguments
        is_wanted = not is_plain and is_blockwise(x, saves_memory=self.saves_memory)
        if is_wanted and isinstance(block, BlockwiseModule):
            norm = LayerNorm(self.norm.weight, self.norm.bias, self.norm.eps)
            return block.in_blocks(x, norm, self.dropout, **arguments)
        return self.dropout.add(x, block(self.norm(x), **arguments))
