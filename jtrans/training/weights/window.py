"""The consecutive validations with the best mean BLEU, by which RNMT+ is judged.

Chen et al. 2018 report mean and standard deviation of a test set's BLEU over the 21 consecutive
checkpoints with the best mean on the validation set (docs/systems.md 7.8).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BleuWindow:
    """The best window so far, and the validations that may become part of a better one."""

    size: int = 0  # of a window; 0: none is kept
    updates: list[int] = field(default_factory=list)  # of the best window; empty before the first
    mean: float = 0.0  # its mean BLEU
    newest: float | None = None  # mean BLEU of the window that the last validation completed
    # the newest validations, one fewer than a window has: their updates and BLEU
    recent: list[int] = field(default_factory=list)
    bleu: list[float] = field(default_factory=list)

    def add(self, update: int, bleu: float, size: int) -> None:
        """Count a validation; windows of another `size` than before are forgotten."""
        if self.size != size:
            self.size, self.updates, self.mean = size, [], 0.0
        updates, values = [*self.recent, update][-size:], [*self.bleu, bleu][-size:]
        self.newest = sum(values) / size if len(values) == size else None
        if self.newest is not None and (not self.updates or self.newest > self.mean):
            self.updates, self.mean = updates, self.newest
        start = max(0, len(updates) - size + 1)
        self.recent, self.bleu = updates[start:], values[start:]

    def keep_only(self, saved: Collection[int]) -> None:
        """Forget the validations whose checkpoint is not among the `saved` updates."""
        if not set(self.updates) <= set(saved):
            self.updates, self.mean = [], 0.0
        lost = [index for index, update in enumerate(self.recent) if update not in saved]
        start = lost[-1] + 1 if lost else 0
        self.recent, self.bleu = self.recent[start:], self.bleu[start:]

    @property
    def pointer(self) -> dict[str, Any] | None:
        """The entry for the run's pointers, None if no window is kept."""
        if not self.size:
            return None
        names = ("size", "updates", "mean", "recent")
        return {name: getattr(self, name) for name in names}

    @property
    def needed(self) -> set[int]:
        """The updates whose checkpoints must stay."""
        return {*self.updates, *self.recent}
