"""Training metrics: losses, tokens and time are summed, logged and reported as events.

Losses stay tensors on the device and are read only when a number is needed, because
reading makes a GPU wait. They are added one by one in the order of updates, so that the sums do
not depend on when they were read: a resumed run logs the same values as an uninterrupted run.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from jtrans.errors import WorkError
from jtrans.runs import Run
from jtrans.training.checkpoint import Totals, TrainingState
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import Advance, Validation
from jtrans.training.stopping import Stopping
from jtrans.training.tensorboard import TensorBoard


class Metrics:
    """Keeps the sums of a `TrainingState` up to date and writes the run's log.

    Joint positions per second are reported where `is_joint`; `ranks` agree on the time.
    """

    def __init__(self, run: Run, state: TrainingState, *, is_joint: bool, ranks: Ranks) -> None:
        self.run = run
        self.state = state
        self.is_joint = is_joint
        self.ranks = ranks
        self.board: TensorBoard | None = None
        # losses, gradient norm and whether it was dropped of each update, on the device; its
        # target tokens, and its labelled source tokens
        self._unread: list[tuple[Tensor, int, dict[str, int]]] = []
        self._gradient_norm = 0.0
        self.start_clock()

    def start_clock(self) -> None:
        """Start counting time."""
        self._clock = self.ranks.now()
        self._first_update = self.state.update
        self._first_seconds = self.state.seconds

    def elapse(self) -> float:
        """Add the time since the last call to the run's time, and return it."""
        now = self.ranks.now()
        seconds, self._clock = now - self._clock, now
        self.state.seconds += seconds
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
        self._unread.append((measured, tokens, labelled))
        seconds = self.elapse()
        for totals in self._sums():
            totals.tokens += tokens
            totals.positions += positions
            totals.updates += 1
            totals.seconds += seconds

    def read(self) -> None:
        """Read the losses still on the device into the sums.

        Raises:
            WorkError: a loss is not finite, and its update was not dropped.
        """
        if not self._unread:
            return
        rows = torch.stack([measured for measured, _, _ in self._unread]).tolist()
        counts = [(tokens, labelled) for _, tokens, labelled in self._unread]
        self._unread.clear()
        first = self.state.update - len(rows) + 1
        for update, (loss, nll, *labels, norm, dropped) in enumerate(rows, first):
            tokens, labelled = counts[update - first]
            is_finite = math.isfinite(loss) and math.isfinite(norm)
            if not (is_finite or dropped):
                value = norm if math.isfinite(loss) else loss
                raise self.diverged(update, f"the loss or its gradient is {value}")
            self.state.dropped += int(dropped)
            for totals in self._sums():
                if is_finite:
                    totals.loss += loss
                    totals.nll += nll
                    totals.add_labels(dict(zip(labelled, labels, strict=True)), labelled)
                else:
                    totals.unmeasured += tokens
            self._gradient_norm = norm if is_finite else self._gradient_norm

    def diverged(self, update: int, fault: str) -> WorkError:
        """Return the error for numbers that are not finite; no checkpoint holds such numbers."""
        return WorkError(
            f"training diverged: {fault} at update {update}",
            where=str(self.run.folder),
            hint="the same command with half the rate, --set training.learning_rate=..., "
            "continues from the last checkpoint; with --restart it starts over",
            kind="work.diverged",
        )

    def log(self, event: str, **values: Any) -> None:
        """Write one event to the run's log, and its curves for TensorBoard, on the first rank."""
        if not self.ranks.is_first:
            return
        self.state.events += 1
        self.run.log({"event": event, "update": self.state.update, **values})
        if self.board is not None:
            self.board.add(event, self.state.update, values)

    def log_updates(self, learning_rate: float) -> None:
        """Log the sums since the last train event, and clear them."""
        self.read()
        state, sums = self.state, self.state.since_log
        rates = {"tokens_per_second": sums.rate(sums.tokens)}
        if self.is_joint:
            rates["positions_per_second"] = sums.rate(sums.positions)
        if not sums.measured:
            raise self.diverged(state.update, f"no gradient of {sums.updates} updates is finite")
        if state.dropped:
            rates["dropped"] = state.dropped
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

    def validation(self, measured: dict[str, float], *, is_best: bool) -> Validation:
        """Log a validation, clear the sums since the last one, and return it as an event."""
        self.read()
        self.elapse()
        state, sums = self.state, self.state.since_validation
        state.since_validation = Totals()
        row = Validation(
            epoch=self.epoch,
            update=state.update,
            train_loss=sums.nll / max(1, sums.measured),
            valid_loss=measured["loss"],
            perplexity=measured["perplexity"],
            bleu=measured.get("bleu"),
            is_best=is_best,
            tokens_per_second=sums.rate(sums.tokens),
            seconds=state.seconds,
            dropped=state.dropped,
            window=state.window.newest,
            is_best_window=state.update in state.window.updates[-1:],
            accuracy={
                name.removesuffix("_accuracy"): value
                for name, value in measured.items()
                if name.endswith("_accuracy")
            },
        )
        self.log(
            "validation", **{name: value for name, value in vars(row).items() if name != "update"}
        )
        return row

    def advance(self, stopping: Stopping, updates_per_epoch: int) -> Advance:
        """Return the progress of training as an event."""
        state, sums = self.state, self.state.since_validation
        total = stopping.total_updates(state, updates_per_epoch)
        # includes the time of validations since the start
        done = max(1, state.update - self._first_update)
        pace = (state.seconds - self._first_seconds) / done
        return Advance(
            update=state.update,
            total=total,
            tokens_per_second=sums.rate(sums.tokens),
            positions_per_second=sums.rate(sums.positions) if self.is_joint else None,
            seconds_left=stopping.seconds_left(state, total, pace),
        )

    @property
    def epoch(self) -> int:
        """The epoch the last update was in, counted from 1."""
        return self.state.epoch + (self.state.position > 0)

    def _sums(self) -> tuple[Totals, Totals]:
        return self.state.since_log, self.state.since_validation
