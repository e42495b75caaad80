"""The updates of a run that were not finite, and what followed; saved with each checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from jtrans.training.updates import MicroBatch

# training goes back after this many skipped updates in a row, or among the last ones
STREAK = 5
MANY, LAST = 10, 100


@dataclass
class Trouble:
    """The updates of a run that were skipped, and what followed."""

    skipped: int = 0  # updates whose loss or gradient was not finite
    unexplained: list[int] = field(default_factory=list)  # the last of those not due to sentences
    left_out: list[int] = field(default_factory=list)  # training pairs that spoilt an update
    returns: int = 0  # how often training went back to its last good state
    learning_rate: float | None = None  # the configured rate at the last return

    def blame(self, update: int, sentences: Sequence[int], pairs: int) -> bool:
        """Note why an update was skipped.

        Args:
            update: its number.
            sentences: the pairs without which it would have been finite; none if that is unknown.
            pairs: the size of the training split.

        Returns:
            Whether the sentences are left out from now on: not if they were more than 1 % of all.
        """
        left_out = {*self.left_out, *sentences}
        if sentences and len(left_out) <= max(1, pairs // 100):
            self.left_out = sorted(left_out)
            return True
        self.unexplained = [each for each in self.unexplained if each > update - LAST] + [update]
        return False

    @property
    def factor(self) -> float:
        """The part of the configured rate that training continues with."""
        return float(0.5**self.returns)

    def go_back(self, learning_rate: float) -> None:
        """Count a return to the last good state; the skipped updates before it are forgiven."""
        self.returns, self.learning_rate, self.unexplained = self.returns + 1, learning_rate, []

    def use(self, learning_rate: float) -> None:
        """Forget the returns if the configured rate is not the one that they halved."""
        if learning_rate != self.learning_rate:
            self.returns = 0

    @property
    def is_repeated(self) -> bool:
        """Return whether so many updates were skipped that training must go back."""
        last = self.unexplained[-STREAK:]
        is_streak = len(last) == STREAK and last[-1] - last[0] == STREAK - 1
        return is_streak or len(self.unexplained) >= MANY


def without(
    updates: Sequence[Sequence[MicroBatch]], left_out: Collection[int]
) -> list[list[MicroBatch]]:
    """Return the updates of an epoch without some pairs, but never leave an update empty."""
    if not left_out:
        return [list(update) for update in updates]
    excluded = np.array(sorted(left_out))
    result = []
    for update in updates:
        parts = [indices[~np.isin(indices, excluded)] for indices in update]
        result.append([part for part in parts if part.size] or list(update))
    return result
