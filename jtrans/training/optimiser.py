"""The optimiser and its learning rate (docs/systems.md 0.7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from jtrans.config import ScheduleConfig, TrainingConfig
from jtrans.models.base import TranslationModel


def make_optimiser(model: TranslationModel, training: TrainingConfig) -> torch.optim.Optimizer:
    """Build Adam with decoupled weight decay, p <- p - rate decay p."""
    return torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=training.learning_rate,
        betas=training.optimiser.betas,
        eps=training.optimiser.eps,
        weight_decay=training.weight_decay,
        fused=True,  # 3 to 10 times as fast as the loop over parameters, even on a CPU
    )


@dataclass(frozen=True)
class Schedule:
    """A learning rate for every update."""

    config: ScheduleConfig  # its name, warm-up and floor
    learning_rate: float  # the highest rate; for `noam` the factor c before E^-1/2
    width: int  # the model's width E; only `noam` uses it

    def rate(self, update: int) -> float:
        """Return the rate of an update, counted from 1."""
        peak, t0 = self.learning_rate, max(1, self.config.warmup)
        if self.config.name == "constant":
            return peak
        if self.config.name == "noam":  # Vaswani et al. 2017, section 5.3
            return float(peak * self.width**-0.5 * min(update**-0.5, update * t0**-1.5))
        if update < t0:
            initial = self.config.warmup_init
            return initial + update * (peak - initial) / t0
        return peak * math.sqrt(t0 / update)

    def is_exhausted(self, update: int) -> bool:
        """Return whether the rate of `update` has fallen below the floor after the warm-up."""
        warmup = 0 if self.config.name == "constant" else self.config.warmup
        return update > warmup and self.rate(update) < self.config.floor
