"""The learning rate as a function of the update (docs/systems.md 0.7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtrans.config import ScheduleConfig


@dataclass(frozen=True)
class Schedule:
    """A learning rate for every update.

    Args:
        rate: from the number of an update, counted from 1, to its rate.
        warmup: number of updates in which the rate rises.
        floor: training ends when the rate has fallen below it.
    """

    rate: Callable[[int], float]
    warmup: int
    floor: float

    def is_exhausted(self, update: int) -> bool:
        """Say whether the rate of `update` has fallen below the floor after the warm-up."""
        return update > self.warmup and self.rate(update) < self.floor


def make_schedule(config: ScheduleConfig, *, learning_rate: float, width: int) -> Schedule:
    """Build the configured schedule.

    Args:
        config: its name, warm-up and floor.
        learning_rate: the highest rate; for `noam` the factor c before E^-1/2.
        width: the model's width E; only `noam` uses it.
    """
    if config.name == "constant":
        return Schedule(lambda update: learning_rate, 0, config.floor)
    t0 = max(1, config.warmup)
    if config.name == "noam":
        return Schedule(noam(learning_rate, t0, width), config.warmup, config.floor)
    rate = inverse_sqrt(learning_rate, t0, config.warmup_init)
    return Schedule(rate, config.warmup, config.floor)


def inverse_sqrt(learning_rate: float, warmup: int, initial: float) -> Callable[[int], float]:
    """Return the rate that rises linearly from `initial` and then falls with 1 / sqrt(update)."""

    def rate(update: int) -> float:
        if update < warmup:
            return initial + update * (learning_rate - initial) / warmup
        return learning_rate * math.sqrt(warmup / update)

    return rate


def noam(scale: float, warmup: int, width: int) -> Callable[[int], float]:
    """Return the rate of Vaswani et al. 2017, section 5.3, times `scale`."""

    def rate(update: int) -> float:
        return float(scale * width**-0.5 * min(update**-0.5, update * warmup**-1.5))

    return rate
