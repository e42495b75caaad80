"""`jtrans scale`: from a base model to a larger one, by the gradients of depth and width."""

from __future__ import annotations

from jtrans.cli.scale.command import scale

__all__ = ["scale"]
