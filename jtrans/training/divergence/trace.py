"""Find the layer and the sentences that make the loss or the gradient of an update not finite.

The update is computed once more, with the same dropout, and its micro-batches that are not finite
are halved repeatedly. Afterwards weights and random generators are as before.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from jtrans.training.divergence.batch_statistics import BatchStatistics
from jtrans.training.divergence.first_fault import FirstFault, gradient_fault
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.updates import MicroBatch

MOST_PARTS = 8  # of a micro-batch that are not finite: more are not due to single sentences


@dataclass(frozen=True)
class Attempt:
    """An update as it was computed on this rank: enough to compute it once more."""

    update: int  # its number, counted from 1
    loss: UpdateLoss
    micro_batches: Sequence[MicroBatch]
    random: RandomState  # before it


@dataclass(frozen=True)
class Cause:
    """What is not finite in a rank's share of an update."""

    layer: str  # the first module or gradient that is not; empty if all of the share is finite
    sentences: tuple[int, ...]  # in the smallest parts of micro-batches that are not finite
    computed: int  # number of sentences in the micro-batches they are from
    is_rest_finite: bool  # whether the share is finite without them
    rest: int  # number of other sentences of the share


@dataclass(frozen=True, eq=False)
class Tracer:
    """Finds the causes of updates that are not finite."""

    accumulator: GradientAccumulator  # computes the updates
    # called with the update's number and the pairs of each micro-batch before it runs
    before: Callable[[int, MicroBatch], None]

    def trace(self, attempt: Attempt) -> Cause:
        """Return the cause of an update that is not finite; gradients must have been cleared.

        If weights are sharded, every rank gathers all of them meanwhile and repeats forward passes
        only: in a backward pass the ranks would exchange gradients. So no cause is found if only
        the gradient is not finite.
        """
        layer, sentences, computed = "", [], 0
        is_rest_finite = True
        with self._undisturbed(attempt):
            for indices in attempt.micro_batches:
                fault = self._fault(attempt, indices)
                if fault is None:
                    continue
                layer, computed = layer or fault, computed + int(indices.size)
                parts = self._narrowed(attempt, indices)
                named = np.concatenate(parts)
                sentences += named.tolist()
                rest = indices[~np.isin(indices, named)]
                is_single = all(part.size == 1 for part in parts)
                if not is_single or (rest.size and self._fault(attempt, rest) is not None):
                    is_rest_finite = False
                    break
        total = sum(int(indices.size) for indices in attempt.micro_batches)
        return Cause(layer, tuple(sentences), computed, is_rest_finite, total - len(sentences))

    def _narrowed(self, attempt: Attempt, indices: MicroBatch) -> list[MicroBatch]:
        """Return the smallest parts of a micro-batch that are not finite.

        That costs at most as much as computing the whole micro-batch log2(B) + 1 times.
        """
        parts = [indices]
        while any(part.size > 1 for part in parts):
            smaller = [
                half
                for part in parts
                for half in np.array_split(part, min(2, part.size))
                if part.size == 1 or self._fault(attempt, half) is not None
            ]
            if not 0 < len(smaller) <= MOST_PARTS:
                break
            parts = smaller
        return parts

    def _fault(self, attempt: Attempt, indices: MicroBatch) -> str | None:
        """Return where some pairs are first not finite, None if they are finite everywhere."""
        model, first = self.accumulator.model, FirstFault()
        with first.watching(model):
            if self.accumulator.sharding is None:
                losses = self.accumulator.accumulate(attempt.loss, [indices])
            else:
                losses = self.accumulator.forward(attempt.loss, indices)
        gradient = gradient_fault(model)
        model.zero_grad(set_to_none=True)
        if gradient is None and losses.isfinite().all():
            return None
        return first.place or ("the loss" if not losses.isfinite().all() else gradient)

    @contextlib.contextmanager
    def _undisturbed(self, attempt: Attempt) -> Iterator[None]:
        """Start from the random state before an update, and restore everything afterwards."""
        accumulator = self.accumulator
        model = accumulator.model
        previous = accumulator.limits, accumulator.before, accumulator.on_split
        random, statistics = RandomState.of(model.device), BatchStatistics(model)
        statistics.keep()
        accumulator.limits = copy.deepcopy(accumulator.limits)
        accumulator.before = lambda indices: self.before(attempt.update, indices)
        accumulator.on_split = lambda sentences, size: None
        if accumulator.captured is not None:
            accumulator.captured.is_replaying = False
        sharding = accumulator.sharding
        try:
            with contextlib.nullcontext() if sharding is None else sharding.whole():
                attempt.random.restore()
                yield
        finally:
            if accumulator.captured is not None:
                accumulator.captured.is_replaying = True
            accumulator.limits, accumulator.before, accumulator.on_split = previous
            random.restore()
            statistics.restore(torch.ones((), dtype=torch.bool, device=model.device))
