"""`jtrans train`: train a run from a recipe and a prepared corpus."""

from __future__ import annotations

from jtrans.cli.train.command import train

__all__ = ["train"]
