"""`jtrans translate`: raw text in, raw text out."""

from __future__ import annotations

from jtrans.cli.translate.command import translate

__all__ = ["translate"]
