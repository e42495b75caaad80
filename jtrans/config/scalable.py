"""How a system declares its depth and its width, for scaling (docs/systems.md 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerStack:
    """Layers of one kind; each has about (`attention` + `ffn` F/E) E^2 parameters."""

    key: str  # the setting of `[model]` that gives their number
    attention: float  # number of E x E matrices in a layer, FFNs not counted
    ffn: float  # number of E x F matrices in a layer


@dataclass(frozen=True)
class ScalableSizes:
    """The sizes that scaling increases: the depth of each stack equally, and the width of FFNs."""

    stacks: tuple[LayerStack, ...]  # all stacks of layers
    ffn_width: str = "ffn_width"  # the setting with F
    width: str = "width"  # the setting with E, which scaling keeps; F is a multiple of it
