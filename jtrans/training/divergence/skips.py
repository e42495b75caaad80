"""Skipped updates: those whose loss or gradient is not finite change nothing but their count.

If an update is finite without a few of its sentences, these are at fault and are left out from then
on. Otherwise the weights or the rate are at fault, and training goes back if this happens often
(docs/training.md).
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from jtrans.errors import WorkError
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.divergence.trace import Attempt, Cause, Tracer
from jtrans.training.divergence.trouble import Trouble
from jtrans.training.events import Skip
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.validation import Validator

MOST_SHOWN = 100  # sentences that an event names
READ_LATER = 1  # updates that a GPU computes before an earlier one is checked


class DivergedError(WorkError):
    """Numbers are not finite, and skipping an update does not help."""

    default_kind = "work.diverged"
    is_final = False  # whether no other rate would help


class Skips:
    """Explains the updates that were skipped.

    Args:
        accumulator: computes the updates.
        ranks: the processes that train together.
        seed: of training.
    """

    def __init__(self, accumulator: GradientAccumulator, ranks: Ranks, seed: int) -> None:
        self.ranks = ranks
        self.tracer = Tracer(
            accumulator,
            # the generators were seeded with the number of updates done before
            lambda update, indices: ranks.begin_micro_batch(seed, update - 1, indices),
        )
        self._attempts: deque[Attempt] = deque(maxlen=READ_LATER + 1)
        self._last: Skip | None = None

    def remember(self, attempt: Attempt) -> None:
        """Note an update before it is computed."""
        self._attempts.append(attempt)

    def explain(self, update: int, fault: str, trouble: Trouble) -> Skip:
        """Find out why an update was skipped, and note it in `trouble`; all ranks must call this.

        Args:
            update: its number, one of the last.
            fault: what is not finite, as text.
            trouble: of the run so far.
        """
        attempt = next(each for each in reversed(self._attempts) if each.update == update)
        causes = self.ranks.gather(self.tracer.trace(attempt))
        faulty = [rank for rank, cause in enumerate(causes) if cause.layer]
        sentences = [index for cause in causes for index in cause.sentences]
        at_fault = sentences if _are_at_fault(causes) else []
        is_left_out = trouble.blame(update, at_fault, len(attempt.loss.pairs))
        self._last = Skip(
            update=update,
            fault=fault,
            layer=causes[faulty[0]].layer if faulty else "",
            sentences=tuple(sentences[:MOST_SHOWN]),
            named=len(sentences),
            computed=sum(cause.computed for cause in causes),
            ranks=tuple(faulty),
            left_out=is_left_out,
            skipped=trouble.skipped,
            is_forward=self.ranks.is_sharding,
        )
        return self._last

    def explain_validation(self, validator: Validator, update: int) -> tuple[str, bool]:
        """Find out why a validation loss is not finite; all ranks must call this.

        Returns:
            The layer and the sentences as text, and whether these alone are at fault.
        """
        model = self.tracer.accumulator.model
        batches = validator.batches[self.ranks.rank :: self.ranks.count]
        loss = UpdateLoss(validator.pairs, divisor=1)
        attempt = Attempt(update, loss, batches, RandomState.of(model.device))
        model.eval()
        causes = self.ranks.gather(self.tracer.trace(attempt))
        model.train()
        layers = [cause.layer for cause in causes if cause.layer]
        sentences = [f"{index:,}" for cause in causes for index in cause.sentences]
        if not layers:
            return "", False
        shown = ", ".join(sentences[:8]) + (" and others" if len(sentences) > 8 else "")
        text = f", first in {layers[0]}, sentences {shown} of valid (counted from 0)"
        return text, _are_at_fault(causes)

    def diverged(
        self, fault: str, run: Path, update: int, trouble: Trouble, *, is_final: bool
    ) -> DivergedError:
        """Return the error for training that cannot continue.

        Args:
            fault: what is not finite, as text.
            run: its folder.
            update: the number of updates done.
            trouble: of the run so far.
            is_final: whether no other rate would help.
        """
        last = self._last
        cause = f"; update {last.update:,} was skipped: {last.describe()}" if last else ""
        rate = f", with 1/{2**trouble.returns} of the configured learning rate"
        tried = rate if trouble.returns else ""
        hint = (
            "no learning rate helps: remove these sentences from the validation text, prepare the "
            "corpus again, and train a new run"
            if is_final
            else "the same command with a lower rate, --set training.learning_rate=..., "
            "continues from the last checkpoint; with --restart it starts over"
        )
        message = f"training diverged: {fault} at update {update:,}{tried}{cause}"
        error = DivergedError(message, where=str(run), hint=hint)
        error.is_final = is_final
        return error


def _are_at_fault(causes: list[Cause]) -> bool:
    """Return whether the update is finite without the sentences of `causes`.

    They must be at most half of what their rank computed: otherwise the rank may be at fault.
    """
    return all(cause.is_rest_finite and len(cause.sentences) <= cause.rest for cause in causes)
