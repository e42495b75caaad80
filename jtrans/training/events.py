"""The events of training: the command line draws them, a notebook may ignore them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Start:
    """Training begins or continues.

    Args:
        run: the run's folder.
        update: updates already done; 0 for a new run.
        system: the system's name.
        parameters: trainable numbers.
        device: one line about the device and precision.
        changes: settings that differ from those of the run so far, as text.
    """

    run: Path
    update: int
    system: str
    parameters: int
    device: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advance:
    """One more update is done.

    Args:
        update: updates done.
        total: updates at the end of training; None if only time limits them.
        tokens_per_second: real target tokens.
        positions_per_second: padded joint positions; None for systems without them.
        seconds_left: until the nearest limit; None when there is none.
    """

    update: int
    total: int | None
    tokens_per_second: float
    positions_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class Validation:
    """One validation: a row of the table.

    Args:
        epoch: of the last update, counted from 1.
        update: updates done.
        train_loss: unsmoothed loss per target token since the last validation, with dropout.
        valid_loss: unsmoothed loss per target token, in nats.
        perplexity: exp of the valid loss.
        bleu: of the translated sentences; None when none are translated.
        is_best: whether it is the best so far.
        tokens_per_second: of training since the last validation.
        seconds: of training and validation so far, over all starts.
    """

    epoch: int
    update: int
    train_loss: float
    valid_loss: float
    perplexity: float
    bleu: float | None
    is_best: bool
    tokens_per_second: float
    seconds: float


@dataclass(frozen=True)
class Result:
    """How training ended.

    Args:
        run: the run's folder.
        reason: `max_epochs`, `max_updates`, `max_minutes`, `patience`, `floor` or `stopped`.
        update: updates done.
        epochs: whole epochs done.
        seconds: of training and validation, over all starts.
        trained: whether any update was done this time.
        best: value of the best validation, its metric and its update; None without validation.
        validation: what the last validation measured.
        splits: micro-batches that did not fit into memory and were done in halves.
    """

    run: Path
    reason: str
    update: int
    epochs: int
    seconds: float
    trained: bool
    best: dict[str, Any] | None
    validation: dict[str, float]
    splits: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {**dataclasses.asdict(self), "run": str(self.run)}


class TrainingEvents:
    """Receives the events of training; a subclass handles those it is interested in."""

    def start(self, start: Start) -> None:
        """Training begins or continues."""

    def update(self, advance: Advance) -> None:
        """An update is done."""

    def split(self, sentences: int, size: int) -> None:
        """A micro-batch did not fit into memory and is done in halves.

        Args:
            sentences: its pairs.
            size: its padded joint positions, or target tokens for systems without them.
        """

    def validating(self, done: int, total: int | None) -> None:
        """So many sentences of a validation are translated."""

    def validation(self, validation: Validation) -> None:
        """A validation is done."""

    def end(self, result: Result) -> None:
        """Training ended."""
