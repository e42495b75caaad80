"""`jtrans serve`: translations for a browser and for other programs on this machine."""

from __future__ import annotations

from jtrans.cli.serve.command import serve

__all__ = ["serve"]
