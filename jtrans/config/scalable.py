"""How a system declares its depth and its width, for scaling (docs/systems.md 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerStack:
    """Layers of one kind; each has about (`attention` + `ffn` F/E) E^2 parameters."""

    key: str  # the setting of `[model]` with their number
    attention: float  # E x E matrices of a layer apart from its FFNs
    ffn: float  # E x F matrices of a layer


@dataclass(frozen=True)
class ScalableSizes:
    """What scaling grows: the stacks by as many layers each, and the width of all FFNs."""

    stacks: tuple[LayerStack, ...]  # all stacks of layers
    ffn_width: str = "ffn_width"  # the setting with F
    width: str = "width"  # the setting with E, the width that F is a multiple of; it stays
