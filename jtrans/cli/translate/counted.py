"""Counts and rates of a translation, and its progress bar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.errors import how_many

if TYPE_CHECKING:
    from jtrans.decoding.parallel import TranslatedPiece


class Counted(console.TerminalProgress):
    """Counts lines, tokens and time; the bar shows the whole file."""

    def __init__(self, total: int | None, *, has_bar: bool) -> None:
        super().__init__()
        self.total = total if has_bar else None
        self.lines = self.tokens = 0
        self._begin = time.perf_counter()
        self.seconds = 0.0

    def add(self, piece: TranslatedPiece) -> None:
        """Count a piece that is done."""
        for text in piece.warnings:
            self.warn(text)
        self.advance("", len(piece.translations))
        self.lines += len(piece.translations)
        self.tokens += sum(len(best[0].tokens) for best in piece.translations)
        self.seconds += piece.seconds

    def describe(self) -> str:
        """Return the counts and rates: of the time spent translating, or of several processes."""
        seconds = max(min(self.seconds, time.perf_counter() - self._begin), 1e-9)
        return (
            f"{how_many(self.lines, 'line')}, {how_many(self.tokens, 'token')} in {seconds:.1f} s: "
            f"{self.lines / seconds:,.1f} sentences/s, {self.tokens / seconds:,.0f} tokens/s"
        )

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Move the bar of the whole file."""
        if self.total:
            super().advance("Translating", self.lines + done, self.total)
