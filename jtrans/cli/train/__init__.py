"""`jtrans train`: from a recipe and a prepared corpus to a run."""

from __future__ import annotations

from jtrans.cli.train.command import train

__all__ = ["train"]
