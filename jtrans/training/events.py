"""Training events: the command line shows them, a notebook may ignore them."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrans.errors import how_many

MOST_RETURNS = 3  # of a run to its last good state


@dataclass(frozen=True)
class Start:
    """Training begins or continues."""

    run: Path  # its folder
    update: int  # updates already done; 0 for a new run
    system: str
    parameters: int  # trainable numbers
    device: str  # one line about the device and precision
    micro_batch: str  # the limits of a micro-batch
    changes: tuple[str, ...]  # settings that differ from those of the run so far, as text
    frozen: int  # numbers that are not trained
    copied: tuple[str, ...]  # weights that a new run takes from other runs, as text
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Advance:
    """One more update is done."""

    update: int  # updates done
    total: int | None  # updates at the end of training; None if only time limits them
    tokens_per_second: float  # real target tokens
    positions_per_second: float | None  # padded joint positions; None for systems without them
    # until the nearest limit; None when there is none, or after a session's first update
    seconds_left: float | None


@dataclass(frozen=True)
class SampleTranslation:
    """A sentence of the valid split, and the model's translation of it."""

    source: str
    reference: str  # the first reference
    hypothesis: str


@dataclass(frozen=True)
class Validation:
    """One validation: a row of the table."""

    epoch: int  # of the last update, counted from 1
    update: int  # updates done
    # unsmoothed loss per target token since the last validation, with dropout; None if all updates
    # were skipped
    train_loss: float | None
    valid_loss: float  # unsmoothed loss per target token, in nats
    perplexity: float  # of the valid loss
    bleu: float | None  # of the translated sentences; None when none are translated
    is_best: bool  # so far
    tokens_per_second: float  # of training since the last validation
    seconds: float  # of training and validation so far, over all starts
    dropped: int = 0  # updates dropped by the gradient guard so far
    skipped: int = 0  # updates skipped so far because their loss or gradient was not finite
    window: float | None = None  # mean BLEU of the window of validations that ends with this one
    is_best_window: bool = False  # so far
    accuracy: dict[str, float] = field(default_factory=dict)  # of the labels of the source, by kind
    samples: tuple[SampleTranslation, ...] = ()  # of the same sentences in every validation
    # of the translated sentences; None unless checkpoints or stopping depend on it
    chrf: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the validation as plain values; without samples where there are none."""
        values = dataclasses.asdict(self)
        return values if self.samples else {k: v for k, v in values.items() if k != "samples"}


@dataclass(frozen=True)
class Skip:
    """An update was skipped: its loss or its gradient was not finite."""

    update: int  # its number, counted from 1
    fault: str  # what is not finite, such as `the loss is nan`
    # the first module or gradient that is not finite; empty if all is finite when computed again
    layer: str
    sentences: tuple[int, ...]  # indices of the training pairs at fault, at most 100 of them
    named: int  # number of pairs at fault
    computed: int  # number of pairs in their micro-batches
    ranks: tuple[int, ...]  # the processes that computed them
    left_out: bool  # whether these pairs are left out from now on
    skipped: int  # updates skipped so far
    is_forward: bool  # whether only the forward pass was computed once more

    def describe(self) -> str:
        """Return what is known of the cause, such as ``encoder.layers.0, sentence 17``."""
        if not self.layer and self.is_forward:
            return "its loss is finite; with --shard-model no gradient is traced"
        if not self.layer:
            return "computed once more, everything is finite"
        shown = ", ".join(f"{index:,}" for index in self.sentences[:8])
        rest = f" and {how_many(self.named - 8, 'other')}" if self.named > 8 else ""
        which = "sentence" if self.named == 1 else "sentences"
        return f"first in {self.layer}, {which} {shown}{rest} of train (counted from 0)"


@dataclass(frozen=True)
class Return:
    """Training diverged and went back to its last good state."""

    update: int  # of that state
    lost: int  # updates done since then
    fault: str  # why, with the layer and the sentences of the last skipped update
    returns: int  # how often it went back so far; each time the rate is halved
    learning_rate: float  # the configured rate, halved as often


@dataclass(frozen=True)
class Result:
    """How training ended."""

    run: Path  # its folder
    reason: str  # `max_epochs`, `max_updates`, `max_minutes`, `patience`, `floor` or `stopped`
    update: int  # updates done
    epochs: int  # whole epochs done
    seconds: float  # of training and validation, over all starts
    trained: bool  # whether any update was done this time
    # value of the best validation, its metric and its update; None without validation
    best: dict[str, Any] | None
    validation: dict[str, float]  # the measurements of the last one
    splits: int = 0  # micro-batches that did not fit into memory and were split in half
    dropped: int = 0  # updates dropped by the gradient guard
    skipped: int = 0  # updates skipped because their loss or gradient was not finite
    left_out: tuple[int, ...] = ()  # indices of training pairs left out because they were the cause
    returns: int = 0  # how often training diverged and went back
    # size, updates and mean BLEU of the best window of validations; None where none is kept
    window: dict[str, Any] | None = None
    ignored: tuple[str, ...] = ()  # changed settings, as text, that a finished run ignores

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {**dataclasses.asdict(self), "run": str(self.run)}


class TrainingEvents:
    """Receives training events; a subclass overrides the methods it needs."""

    def measuring(self) -> None:
        """A new run measures the size of its micro-batches, which `start` then reports."""

    def compiling(self) -> None:
        """Layers are compiled: the first update of a session, or a measurement, takes longer."""

    def start(self, start: Start) -> None:
        """Training begins or continues."""

    def update(self, advance: Advance) -> None:
        """An update is done."""

    def split(self, sentences: int, size: int) -> None:
        """A micro-batch did not fit into memory and is split in half.

        Args:
            sentences: its pairs.
            size: its padded joint positions, or source and target tokens for systems without
                them.
        """

    def skip(self, skip: Skip) -> None:
        """An update was skipped."""

    def go_back(self, event: Return) -> None:
        """Training diverged and continues from its last good state."""

    def validating(self, done: int, total: int | None) -> None:
        """A validation has scored, and later translated, `done` of `total` sentences."""

    def validation(self, validation: Validation) -> None:
        """A validation is done."""

    def end(self, result: Result) -> None:
        """Training ended."""


class StartWarnings(TrainingEvents):
    """Issues the warnings of `Start` as Python warnings, and ignores all other events."""

    def start(self, start: Start) -> None:
        """Issue the warnings."""
        for text in start.warnings:
            warnings.warn(text, stacklevel=6)  # names the line that calls `jtrans.train`
