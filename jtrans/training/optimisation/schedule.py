"""The learning rate (docs/systems.md 0.7 and 7.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from jtrans.config import ScheduleConfig, TrainingConfig


@dataclass
class Plateau:
    """What the schedule `plateau` keeps of the validations so far."""

    best: float | None = None  # the lowest loss
    stale: int = 0  # validations since then, or since the rate fell
    drops: int = 0  # how often the rate fell

    def judge(self, loss: float, patience: int) -> None:
        """Count a validation; after `patience` of them without a lower loss the rate falls."""
        if self.best is None or loss < self.best:
            self.best, self.stale = loss, 0
            return
        self.stale += 1
        if self.stale >= patience:
            self.drops, self.stale = self.drops + 1, 0


@dataclass(frozen=True)
class Schedule:
    """A learning rate for every update."""

    config: ScheduleConfig  # its name, warm-up and floor
    learning_rate: float  # the highest rate; a factor for `noam` and `rnmt`
    width: int  # the model's width E; only `noam` uses it

    @classmethod
    def from_config(cls, training: TrainingConfig, width: int) -> Self:
        """Return the schedule of a run; if it sets no end, it ends at `max_updates`."""
        config = training.schedule
        if config.updates is None:
            config = config.model_copy(update={"updates": training.max_updates})
        return cls(config, training.learning_rate, width)

    def rate(self, update: int, drops: int = 0) -> float:
        """Return the rate of an update, counted from 1.

        Args:
            update: its number.
            drops: how often the validation loss has made the rate fall, `Plateau.drops`.
        """
        peak, t0 = self.learning_rate, max(1, self.config.warmup)
        if self.config.name == "constant":
            return peak
        if self.config.name == "plateau":
            return float(peak * (self.config.factor or 1.0) ** drops)
        if self.config.name == "rnmt":
            return peak * self._rnmt_factor(update)
        if self.config.name == "noam":  # Vaswani et al. 2017, section 5.3
            return float(peak * self.width**-0.5 * min(update**-0.5, update * t0**-1.5))
        if update < t0:
            initial = self.config.warmup_init
            return initial + update * (peak - initial) / t0
        if self.config.has_end:
            return peak * self._decayed(update)
        return peak * math.sqrt(t0 / update)

    def _decayed(self, update: int) -> float:
        """Return the rate of an update after the warm-up as a part of the highest rate.

        `cosine` is the first half of a cosine (Loshchilov & Hutter 2017, equation 5, without
        restarts), `wsd` is 1 until the cooldown and then 1 - sqrt(x), x being the part of the
        cooldown that is over (Haegele et al. 2024, equation 1). Both end at `final`.
        """
        config = self.config
        final, end = config.final or 0.0, config.updates or update
        length = end - config.warmup
        if config.cooldown is not None:
            length = max(1, round(config.cooldown * length))
        over = min(1.0, max(0.0, 1.0 - (end - update) / length))  # part of the decay that is over
        if config.name == "cosine":
            return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * over))
        return final + (1.0 - final) * (1.0 - math.sqrt(over))

    def _rnmt_factor(self, update: int) -> float:
        """Return min(1 + t (n - 1) / (n p), n, n (2n)^max(-1, (s - n t) / (e - s))).

        Chen et al. 2018, equation 1, which lacks the clamp, though the text has the factor end at
        1/2. With `late_start` the decay starts after the warm-up, as in the authors' code.
        """
        config = self.config
        n = config.replicas or 1
        warmup = n * max(1, config.warmup)
        start, end = (config.decay_start or 0) / n, (config.decay_end or 1) / n
        if config.late_start:
            start = max(start, warmup + 1.0)
            end = max(end, start + 1.0)
        # positive before the decay starts, when n is the smaller factor: 0 gives n, too
        exponent = min(0.0, max(-1.0, (start - update) / (end - start)))
        return float(min(1.0 + update * (n - 1) / warmup, n, n * (2.0 * n) ** exponent))

    @property
    def warmup(self) -> int:
        """The updates of the warm-up, 0 without one."""
        if self.config.name in ("constant", "plateau"):
            return 0
        if self.config.name == "rnmt" and self.replicas == 1:
            return 0  # the rate of one replica does not rise
        return self.config.warmup * self.replicas

    @property
    def replicas(self) -> int:
        """The factor of the updates of the warm-up; 1 except for `rnmt`."""
        return (self.config.replicas or 1) if self.config.name == "rnmt" else 1

    def is_exhausted(self, update: int, drops: int = 0) -> bool:
        """Return whether the rate of `update` has fallen below the floor, or to 0, for good."""
        # the last rates of a schedule with an end are meant to be tiny
        first = (self.config.updates or 0) if self.config.has_end else self.warmup
        rate = self.rate(update, drops)
        return update > first and (rate < self.config.floor or rate == 0.0)
