"""Random choices, all from the generator handed in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Makes random choices; the base of the speakers of both languages."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def pick(self, things: Sequence[T]) -> T:
        """Choose one of several things."""
        return things[self.below(len(things))]

    def below(self, limit: int) -> int:
        """Choose a whole number from 0 up to a limit."""
        return int(self._generator.random() * limit)

    def happens(self, chance: float) -> bool:
        """Decide whether something with this probability happens."""
        return self._generator.random() < chance

    def two(self, things: Sequence[T]) -> tuple[T, T]:
        """Choose two different things."""
        first, second = self._generator.sample(things, 2)
        return first, second
