"""Decide when to validate, which validation is best and when training ends."""

from __future__ import annotations

from dataclasses import dataclass

from jtrans.config import TrainingConfig
from jtrans.errors import ConfigError
from jtrans.training.optimisation.schedule import Schedule
from jtrans.training.state import TrainingState
from jtrans.training.weights.window import BleuWindow

METRICS = {  # configured name: name in the measurements
    "valid-loss": "loss",
    "valid-bleu": "bleu",
    "valid-chrf": "chrf",
    "valid-pos": "pos_accuracy",
    "valid-ner": "ner_accuracy",
}
OF_TRANSLATIONS = ("valid-bleu", "valid-chrf")


class StopRequestError(Exception):
    """The caller has asked to stop."""


def as_loss(metric: str, value: float) -> float:
    """Return `value` of `metric` (a key of `METRICS`) as a loss: lower is better."""
    return value if metric == "valid-loss" else -value


def is_better(metric: str, value: float, best: float | None) -> bool:
    """Return whether `value` of `metric` (a key of `METRICS`) is better than `best`."""
    return best is None or as_loss(metric, value) < as_loss(metric, best)


@dataclass(frozen=True)
class Stopping:
    """The limits of the configuration; the first limit reached ends training.

    Raises:
        ConfigError: there is no limit, or a metric needs translations and there are none.
    """

    training: TrainingConfig  # the limits, and the metrics that decide
    schedule: Schedule  # whose learning rate may fall below its floor

    def __post_init__(self) -> None:
        """Check that training has a limit and that the metrics it needs are measured."""
        training = self.training
        limits = (training.max_epochs, training.max_updates, training.max_minutes, training.stop)
        if all(limit is None for limit in limits):
            raise ConfigError(
                "nothing would end this training",
                hint="--set training.max_minutes=20 (or max_epochs, max_updates, stop)",
                kind="config.no-limit",
            )
        translated = [
            each for each in training.deciding_metrics.values() if each in OF_TRANSLATIONS
        ]
        if translated and not training.validate_sentences:
            raise ConfigError(
                f"the metric {translated[0]} needs translations, but "
                "training.validate_sentences is 0",
                hint="--set training.validate_sentences=500",
                kind="config.value",
            )

    def resume(self, state: TrainingState) -> None:
        """Restart the count of early stopping if it was off, or used another metric."""
        metric = None if self.training.stop is None else self.training.stop.metric
        if metric is None or state.stop_metric not in (None, metric):
            state.stop_best, state.stale = None, 0
        state.stop_metric = metric

    def is_validation_due(self, state: TrainingState) -> bool:
        """Return whether to validate before the next update."""
        every = self.training.validate_every
        if state.update == 0 or state.is_validated:
            return False
        minutes = self.training.minutes_between_validations
        if minutes is not None:
            return state.seconds - state.validated_seconds >= 60.0 * minutes
        return state.position == 0 if every == "epoch" else state.update % int(every) == 0

    def reached(self, state: TrainingState) -> str | None:
        """Return the name of the limit reached, or None."""
        training, stop, minutes = self.training, self.training.stop, self.training.max_minutes
        if training.max_updates is not None and state.update >= training.max_updates:
            return "max_updates"
        if training.max_epochs is not None and state.epoch >= training.max_epochs:
            return "max_epochs"
        # training ends with a validation, which is expected to take as long as the last one
        if minutes is not None and state.seconds + state.validation_seconds >= 60.0 * minutes:
            return "max_minutes"
        if stop is not None and state.stale >= stop.patience:
            return "patience"
        is_exhausted = self.schedule.is_exhausted(state.update + 1, state.plateau.drops)
        return "floor" if is_exhausted else None

    def judge(self, state: TrainingState, measured: dict[str, float]) -> bool:
        """Record a validation in `state` and return whether it is the best so far."""
        metric, stop = self.training.best_metric, self.training.stop
        schedule, window = self.training.schedule, self.training.keep.window
        if schedule.name == "plateau":
            state.plateau.judge(measured["loss"], schedule.patience or 1)
        if window:
            state.window.add(state.update, measured["bleu"], window)
        else:
            state.window = BleuWindow()  # a validation that is not added interrupts the sequence
        value = measured[METRICS[metric]]
        is_best = is_better(metric, value, state.best["value"] if state.best else None)
        if is_best:
            state.best = {"metric": metric, "value": value, "update": state.update}
        if stop is not None:
            value = measured[METRICS[stop.metric]]
            if is_better(stop.metric, value, state.stop_best):
                state.stop_best, state.stale = value, 0
            else:
                state.stale += 1
        return is_best

    def total_updates(self, state: TrainingState, updates_per_epoch: int) -> int | None:
        """Return the number of updates that the limits allow; None without such limits."""
        training = self.training
        totals = [] if training.max_updates is None else [training.max_updates]
        if training.max_epochs is not None:
            epochs = training.max_epochs - state.epoch
            totals.append(state.update - state.position + epochs * updates_per_epoch)
        return min(totals, default=None)

    def seconds_left(
        self, state: TrainingState, total: int | None, seconds_per_update: float
    ) -> float | None:
        """Return the seconds until the nearest limit, None without limits."""
        left = [] if total is None else [max(0, total - state.update) * seconds_per_update]
        if self.training.max_minutes is not None:
            left.append(max(0.0, 60.0 * self.training.max_minutes - state.seconds))
        return min(left, default=None)
