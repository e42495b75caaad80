"""Training metrics: losses, tokens and time are summed, logged and reported as events.

Losses are copied from a GPU while it computes, because reading them at once makes it wait. They are
added one by one in the order of updates, so that the sums do not depend on when they were read: a
resumed run logs the same values as an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from jtrans.errors import JtransError
from jtrans.runs import Run
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import Advance, SampleTranslation, Validation
from jtrans.training.state import Totals, TrainingState
from jtrans.training.stopping import Stopping
from jtrans.training.tensorboard import TensorBoard


class Reading:
    """Numbers that are copied from a GPU while it computes."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers, self._arrival = numbers, None
        if numbers.is_cuda:
            self._numbers = numbers.to("cpu", non_blocking=True)
            self._arrival = torch.cuda.Event()
            # by default an event is recorded on the current device, which may be another one
            self._arrival.record(torch.cuda.current_stream(numbers.device))

    def values(self) -> list[float]:
        """Return the numbers, once they have arrived."""
        if self._arrival is not None:
            self._arrival.synchronize()
        numbers: list[float] = self._numbers.tolist()
        return numbers


class Metrics:
    """Keeps the sums of a `TrainingState` up to date and writes the run's log.

    Joint positions per second are reported if `is_joint`; `ranks` agree on the time.
    """

    def __init__(self, run: Run, state: TrainingState, *, is_joint: bool, ranks: Ranks) -> None:
        self.run = run
        self.state = state
        self.is_joint = is_joint
        self.ranks = ranks
        self.board: TensorBoard | None = None
        # of each update: its losses, gradient norm and whether it was dropped, on the device; its
        # target tokens; its labelled source tokens by kind
        self._unread: list[tuple[Reading, int, dict[str, int]]] = []
        self._gradient_norm = 0.0
        self.start_clock()

    def start_clock(self) -> None:
        """Start counting time; the next update is the warm-up of a session."""
        self._clock, self._processor_clock = self.ranks.now(), time.process_time()
        self._warm: tuple[int, float] | None = None  # update and time of the run after the warm-up

    def elapse(self) -> float:
        """Add the time since the last call to the run's time, and return it."""
        now = self.ranks.now()
        seconds, self._clock = now - self._clock, now
        self.state.seconds += seconds
        used = time.process_time()
        self.state.processor_seconds += used - self._processor_clock
        self._processor_clock = used
        return seconds

    def count(
        self, measured: Tensor, *, tokens: int, positions: int, labelled: dict[str, int]
    ) -> None:
        """Count one update.

        Args:
            measured: the summed loss with and without smoothing, the summed losses of labels, the
                norm of the gradient, and 1 if the update was dropped, [4 + kinds of labels].
            tokens: its real target tokens.
            positions: its padded joint positions.
            labelled: its labelled source tokens, by kind of label.
        """
        self._unread.append((Reading(measured), tokens, labelled))
        seconds = self.elapse()
        is_warm_up = self._warm is None
        for totals in self._sums():
            totals.add_update(
                tokens=tokens, positions=positions, seconds=seconds, is_warm_up=is_warm_up
            )
        self._warm = self._warm or (self.state.update, self.state.seconds)

    def read(self, later: int = 0) -> list[tuple[int, str]]:
        """Read the losses still on the device into the sums.

        Args:
            later: how many of the last updates to leave unread.

        Returns:
            The number of each update whose loss or gradient is not finite, and which of them.
        """
        skipped = []
        first = self.state.update - len(self._unread) + 1
        count = max(0, len(self._unread) - later)
        for update, (reading, tokens, labelled) in enumerate(self._unread[:count], first):
            loss, nll, *labels, norm, dropped = reading.values()
            if all(map(math.isfinite, (loss, nll, *labels, norm))):
                for totals in self._sums():
                    totals.loss, totals.nll = totals.loss + loss, totals.nll + nll
                    totals.add_labels(dict(zip(labelled, labels, strict=True)), labelled)
                self.state.dropped += int(dropped)
                self._gradient_norm = norm
                continue
            self.state.trouble.skipped += 1
            for totals in self._sums():
                totals.unmeasured += tokens
            faulty = [value for value in (loss, nll, *labels) if not math.isfinite(value)]
            fault = f"the loss is {faulty[0]}" if faulty else f"the norm of the gradient is {norm}"
            skipped.append((update, fault))
        del self._unread[:count]
        return skipped

    def log(self, event: str, **values: Any) -> None:
        """Write one event to the run's log, and its curves for TensorBoard, on the first rank."""
        if not self.ranks.is_first:
            return
        self.state.events += 1
        self.run.log({"event": event, "update": self.state.update, **values})
        if self.board is not None:
            self.board.add(event, self.state.update, values)

    def log_updates(self, learning_rate: float, noise_scale: float | None) -> None:
        """Log the sums of the updates read since the last train event, and clear them."""
        state, sums = self.state, self.state.since_log
        rates = {"tokens_per_second": sums.tokens_per_second}
        if self.is_joint:
            rates["positions_per_second"] = sums.positions_per_second
        if not sums.measured:
            return  # all were skipped: the next event covers them
        if noise_scale is not None:
            rates["noise_scale"] = noise_scale
        if state.dropped:
            rates["dropped"] = state.dropped
        if state.trouble.skipped:
            rates["skipped"] = state.trouble.skipped
        for kind, loss in sums.labels.items():
            rates[f"{kind}_loss"] = loss / max(1, sums.labelled[kind])
        state.since_log = Totals()
        self.log(
            "train",
            epoch=self.epoch,
            loss=sums.loss / sums.measured,
            nll=sums.nll / sums.measured,
            learning_rate=learning_rate,
            gradient_norm=self._gradient_norm,
            tokens=sums.tokens,
            **rates,
            seconds=state.seconds,
        )

    def validation(
        self,
        measured: dict[str, float],
        *,
        is_best: bool,
        samples: Sequence[SampleTranslation] = (),
    ) -> Validation:
        """Log a validation, clear the sums since the last one, and return it as an event."""
        self.elapse()
        state, sums = self.state, self.state.since_validation
        state.since_validation = Totals()
        row = Validation(
            epoch=self.epoch,
            update=state.update,
            train_loss=sums.nll / sums.measured if sums.measured else None,
            valid_loss=measured["loss"],
            perplexity=measured["perplexity"],
            bleu=measured.get("bleu"),
            is_best=is_best,
            tokens_per_second=sums.tokens_per_second,
            seconds=state.seconds,
            dropped=state.dropped,
            skipped=state.trouble.skipped,
            window=state.window.newest,
            is_best_window=state.update in state.window.updates[-1:],
            accuracy={
                name.removesuffix("_accuracy"): value
                for name, value in measured.items()
                if name.endswith("_accuracy")
            },
            samples=tuple(samples),
            chrf=measured.get("chrf"),
        )
        values = row.to_json()
        del values["update"]  # `log` adds it
        self.log("validation", **values)
        return row

    def advance(self, stopping: Stopping, updates_per_epoch: int) -> Advance:
        """Return the progress of training as an event."""
        state, sums = self.state, self.state.since_validation
        total = stopping.total_updates(state, updates_per_epoch)
        pace = self._pace()
        return Advance(
            update=state.update,
            total=total,
            tokens_per_second=sums.tokens_per_second,
            positions_per_second=sums.positions_per_second if self.is_joint else None,
            seconds_left=None if pace is None else stopping.seconds_left(state, total, pace),
        )

    def _pace(self) -> float | None:
        """Return the seconds per update since the warm-up, with validations; None before any."""
        state = self.state
        update, seconds = self._warm or (state.update, state.seconds)
        done = state.update - update
        return (state.seconds - seconds) / done if done else None

    @property
    def epoch(self) -> int:
        """The epoch the last update was in, counted from 1."""
        return self.state.epoch + (self.state.position > 0)

    def _sums(self) -> tuple[Totals, Totals]:
        return self.state.since_log, self.state.since_validation


@contextlib.contextmanager
def log_failure(metrics: Callable[[], Metrics]) -> Iterator[None]:
    """Log an error that ends training, if the log can be written."""
    try:
        yield
    except JtransError as error:
        log = metrics()
        with contextlib.suppress(JtransError, OSError):
            ended = {"reason": "failed", "fault": error.message, "seconds": log.state.seconds}
            log.log("end", time=now(), **ended)
        raise


def now() -> str:
    """Return the current date and time in UTC, in ISO format."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
