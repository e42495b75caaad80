"""`jtrans scale`: scale a base model by the gradients of its loss along depth and width."""

from __future__ import annotations

from jtrans.cli.scale.command import scale

__all__ = ["scale"]
