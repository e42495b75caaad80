"""`jtrans score`: scores of translations, or a run's probabilities of given translations."""

from __future__ import annotations

from jtrans.cli.score.command import Command, score

__all__ = ["Command", "score"]
