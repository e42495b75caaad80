"""`jtrans serve`: translations for browsers and other programs."""

from __future__ import annotations

from jtrans.cli.serve.command import serve

__all__ = ["serve"]
