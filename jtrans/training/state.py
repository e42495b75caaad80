"""The progress of training: what resuming needs beside weights and optimiser moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from jtrans.training.divergence.trouble import Trouble
from jtrans.training.events import Result, Return
from jtrans.training.memory import MemoryLimits
from jtrans.training.optimisation.guard import NO_AVERAGES
from jtrans.training.optimisation.schedule import Plateau
from jtrans.training.weights.window import BleuWindow


@dataclass
class Totals:
    """Sums over several updates."""

    loss: float = 0.0  # the objective, summed over target tokens
    nll: float = 0.0  # the same without smoothing
    tokens: int = 0  # real target tokens
    positions: int = 0  # padded positions B x S x T
    updates: int = 0
    seconds: float = 0.0
    # the part in warm-ups: the first update of each session, which compiles or loads kernels
    warm_up_tokens: int = 0
    warm_up_positions: int = 0
    warm_up_seconds: float = 0.0
    unmeasured: int = 0  # tokens of skipped updates
    labels: dict[str, float] = field(default_factory=dict)  # summed losses of labels, by kind
    labelled: dict[str, int] = field(default_factory=dict)  # source tokens in these sums

    @property
    def measured(self) -> int:
        """The number of tokens that `loss` and `nll` are summed over."""
        return self.tokens - self.unmeasured

    def add_update(self, *, tokens: int, positions: int, seconds: float, is_warm_up: bool) -> None:
        """Count an update; its losses are added once they have been read."""
        self.tokens += tokens
        self.positions += positions
        self.updates += 1
        self.seconds += seconds
        if is_warm_up:
            self.warm_up_tokens += tokens
            self.warm_up_positions += positions
            self.warm_up_seconds += seconds

    def add_labels(self, losses: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Add the losses of labels of an update, and its labelled source tokens."""
        for kind, loss in losses.items():
            self.labels[kind] = self.labels.get(kind, 0.0) + loss
            self.labelled[kind] = self.labelled.get(kind, 0) + counts[kind]

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens per second, without warm-ups if there are other updates."""
        return self._rate(self.tokens, self.warm_up_tokens)

    @property
    def positions_per_second(self) -> float:
        """Padded positions per second, without warm-ups if there are other updates."""
        return self._rate(self.positions, self.warm_up_positions)

    def _rate(self, amount: int, of_warm_up: int) -> float:
        seconds = self.seconds - self.warm_up_seconds
        if seconds > 0.0:
            return (amount - of_warm_up) / seconds
        return amount / self.seconds if self.seconds > 0.0 else 0.0


@dataclass
class TrainingState:
    """The progress of training."""

    update: int = 0  # updates done
    epoch: int = 0  # whole epochs done
    position: int = 0  # updates done in the current epoch
    seconds: float = 0.0  # time spent training and validating, interruptions not counted
    processor_seconds: float = 0.0  # CPU time meanwhile, of all threads of the first process
    validated: int = 0  # the update of the last validation
    validated_seconds: float = 0.0  # `seconds` at its end
    validation_seconds: float = 0.0  # the time it took
    validation: dict[str, float] = field(default_factory=dict)  # its measurements
    # the best validation by `best_metric`: its metric, value and update
    best: dict[str, Any] | None = None
    stop_best: float | None = None  # best value of the metric of early stopping
    stop_metric: str | None = None  # that metric; earlier versions did not record it
    stale: int = 0  # validations since `stop_best`
    plateau: Plateau = field(default_factory=Plateau)  # of the learning rate
    window: BleuWindow = field(default_factory=BleuWindow)  # consecutive validations, if kept
    guard: list[float] = field(default_factory=NO_AVERAGES.copy)  # `GradientGuard.averages`
    noise: list[float] = field(default_factory=lambda: [0.0, 0.0])  # `NoiseScale.averages`
    dropped: int = 0  # updates dropped by the gradient guard
    since_log: Totals = field(default_factory=Totals)  # sums since the last train event of the log
    since_validation: Totals = field(default_factory=Totals)  # sums since the last validation
    events: int = 0  # events logged so far
    splits: int = 0  # micro-batches that did not fit into memory and were split in half
    limits: MemoryLimits = field(default_factory=MemoryLimits)  # what is split beforehand
    trouble: Trouble = field(default_factory=Trouble)  # updates that were not finite

    @property
    def is_validated(self) -> bool:
        """Return whether the current weights have been validated."""
        return self.update > 0 and self.validated == self.update

    def go_back(self, lost: TrainingState, learning_rate: float, fault: str) -> Return:
        """Keep the time, log and faults of `lost`, the state given up for a `fault`."""
        self.trouble = lost.trouble
        self.trouble.go_back(learning_rate)
        self.validated_seconds += lost.seconds - self.seconds  # the next is not due earlier
        self.validation_seconds = max(self.validation_seconds, lost.validation_seconds)
        self.seconds, self.processor_seconds = lost.seconds, lost.processor_seconds
        self.events, self.splits = lost.events, lost.splits
        return Return(
            update=self.update,
            lost=lost.update - self.update,
            fault=fault,
            returns=self.trouble.returns,
            learning_rate=learning_rate * self.trouble.factor,
        )

    def result(self, run: Path, reason: str, first: int) -> Result:
        """Return the result of training that began after `first` updates, see `Result`."""
        return Result(
            run=run,
            reason=reason,
            update=self.update,
            epochs=self.epoch,
            seconds=self.seconds,
            trained=self.update > first,
            best=self.best,
            validation=self.validation,
            splits=self.splits,
            dropped=self.dropped,
            skipped=self.trouble.skipped,
            left_out=tuple(self.trouble.left_out),
            returns=self.trouble.returns,
            window=self.window.pointer,
        )

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the state from the output of `dataclasses.asdict`."""
        value["since_log"] = Totals(**value["since_log"])
        value["since_validation"] = Totals(**value["since_validation"])
        value["limits"] = MemoryLimits(**value.get("limits", {}))
        value["trouble"] = Trouble(**value.get("trouble", {}))
        value["plateau"] = Plateau(**value.get("plateau", {}))
        value["window"] = BleuWindow(**value.get("window", {}))
        return cls(**value)
