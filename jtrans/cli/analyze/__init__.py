"""`jtrans analyze`: one file a group of figures."""

from jtrans.cli.analyze.figures import analyze

__all__ = ["analyze"]
