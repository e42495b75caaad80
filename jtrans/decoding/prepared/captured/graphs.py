"""Steps of the search captured as CUDA graphs: one for each size, as an LRU cache.

A step is some hundred small operations, which a GPU computes faster than Python can launch them;
a captured step is launched as a whole. A graph repeats its operations on the same memory, so a step
to capture reads and writes buffers of fixed sizes only: a `Bucket`. Smaller searches leave a part
idle. Capturing takes as long as a few steps, so a size is captured when a second search needs it.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from jtrans.nn.gpu.capture import WARM_UPS, Capture, Replay
from jtrans.nn.memory import is_out_of_memory

_log = logging.getLogger(__name__)

# A text of mixed lengths needs some dozens in turn: with a lower limit they would be captured again
# and again. The memory of their caches has a limit of its own.
MOST_GRAPHS = 128
MEMORY_SHARE = 0.25  # share of the memory of a GPU for all of them
LEAST_SLOTS, LEAST_SOURCE = 64, 16
WANTED = 2  # a size is captured once this many searches have needed it


@dataclass(frozen=True)
class Bucket:
    """The sizes of a captured step."""

    lanes: int  # most sentences
    beam: int  # hypotheses of each
    source: int  # most source positions
    slots: int  # most positions in the caches of a sentence's hypotheses

    @classmethod
    def holding(cls, sentences: int, beam: int, source: int, slots: int) -> Bucket:
        """Return the smallest one: sizes are powers of 2, so that there are few."""
        return cls(
            _power_of_2(sentences),
            beam,
            max(LEAST_SOURCE, _power_of_2(source)),
            max(LEAST_SLOTS, _power_of_2(max(slots, (WARM_UPS + 1) * beam))),
        )


def _power_of_2(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


class StaticStep:
    """A step that reads and writes tensors of its own only, which stay where they are."""

    replay: Replay  # does the step, by a graph if it could be captured
    size: int = 0  # the bytes of its buffers
    user: weakref.ref[Any] | None = None  # the state of the search that uses the buffers now

    @property
    def is_used(self) -> bool:
        """Whether a search uses the buffers: its state is still there."""
        return self.user is not None and self.user() is not None

    def work(self) -> Tensor:
        """Do a step; the result, [lanes * beam, E], is overwritten by the next one."""
        raise NotImplementedError


Step = TypeVar("Step", bound=StaticStep)


class StepGraphs(Generic[Step]):
    """The captured steps of a model.

    Args:
        build: allocates the buffers of a bucket and returns the step.
        capture: turns a step into its replay.
        most: the most steps to keep.
        most_bytes: the most bytes of all their buffers, unless a single step needs more.
    """

    def __init__(
        self,
        build: Callable[[Bucket], Step],
        capture: Capture,
        most: int = MOST_GRAPHS,
        most_bytes: float = math.inf,
    ) -> None:
        self._build, self._capture = build, capture
        self._most, self._most_bytes = most, most_bytes
        self.kept: OrderedDict[Bucket, Step] = OrderedDict()
        self._needed: Counter[Bucket] = Counter()
        self.has_failed = False

    def offer(self, bucket: Bucket, user: object) -> Step | None:
        """Return the step of a bucket for a search; None if the search must do without.

        That is so while few searches have needed the bucket, while another search uses it, and
        after a capture has failed. Otherwise the step is that of `take`.
        """
        step = self.kept.get(bucket)
        if step is None or step.is_used:
            is_wanted = step is None and self._needed[bucket] + 1 >= WANTED and not self.has_failed
            if not is_wanted:
                self._needed[bucket] += 1
                return None
        return self.take(bucket, user)

    def take(self, bucket: Bucket, user: object) -> Step:
        """Return the step of a bucket for a search, at worst one without a graph.

        The state of the search, `user`, owns the buffers from now on.
        """
        step = self.kept.get(bucket)
        if step is None or step.is_used:
            self._needed[bucket] += 1
            step = self._new(bucket)
        if not self.has_failed:
            self.kept[bucket] = step
            self.kept.move_to_end(bucket)
            while self._are_too_many():
                self.kept.popitem(last=False)
        step.user = weakref.ref(user)
        return step

    def make_room(self) -> bool:
        """Drop all graphs, whose memory is needed; sizes are captured once they are needed again.

        Returns:
            Whether a search that ran out of memory may find more of it.
        """
        was_captured = max(self._needed.values(), default=0) >= WANTED  # or has failed
        may_help = bool(self.kept) or was_captured
        self.kept.clear()
        self._needed.clear()
        return may_help

    def _are_too_many(self) -> bool:
        count, size = len(self.kept), sum(step.size for step in self.kept.values())
        return count > self._most or (count > 1 and size > self._most_bytes)

    def _new(self, bucket: Bucket) -> Step:
        with torch.inference_mode(False), torch.no_grad():  # searches in either mode may write
            step = self._build(bucket)
        step.replay = self.replay_of(step.work)
        return step

    def replay_of(self, work: Replay) -> Replay:
        """Return the captured work, or the work itself after a capture has failed."""
        if self.has_failed:
            return work
        try:
            return self._capture(work)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            self.kept.clear()
            self.has_failed = True
            _log.warning(
                "the step of the search cannot be captured as a CUDA graph, so it runs without, "
                "with the same results but slower: %s",
                error,
            )
        return work


def memory_for_graphs(device: torch.device) -> float:
    """Return the most bytes that the buffers of captured steps may have."""
    if device.type != "cuda":
        return math.inf
    return MEMORY_SHARE * torch.cuda.get_device_properties(device).total_memory
