"""Prepared forms whose steps are captured, and the state of a search with their buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor

from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured.graphs import (
    Bucket,
    StepGraphs,
    memory_for_graphs,
)
from jtrans.decoding.prepared.captured.slots import Contents, SlotStep, Source
from jtrans.models.base import Memory
from jtrans.nn.gpu.capture import Capture, CudaCapture


class Selectable(Protocol):
    """The state of a search without buffers."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the hypotheses `rows`, [B', beam']."""
        ...


Plain = TypeVar("Plain", bound=Selectable)


class GraphForm(ABC, Generic[Plain, Source]):
    """A prepared form whose steps are captured as CUDA graphs.

    The first step of a search, with one hypothesis for each sentence, is that of `plain`.

    Args:
        plain: the form without graphs.
        make_step: makes the step of a bucket, with its buffers.
        capture: another way to capture than torch's.
    """

    def __init__(
        self,
        plain: Searchable,
        make_step: Callable[[Bucket], SlotStep[Source]],
        capture: Capture | None = None,
    ) -> None:
        self.plain = plain
        self.is_joint, self.longest, self.device = plain.is_joint, plain.longest, plain.device
        self.graphs = StepGraphs(
            make_step,
            capture or CudaCapture(self.device),
            most_bytes=memory_for_graphs(self.device),
        )

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        return self.plain.encode(source, source_mask)

    @abstractmethod
    def begin(self, memory: Memory, beam: int) -> GraphState[Plain, Source]:
        """Return the state of B x beam empty prefixes."""

    def step(self, token: Tensor, state: GraphState[Plain, Source]) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E], valid until the next step."""
        return state.step(token)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.plain.project(hidden)

    @abstractmethod
    def bucket(self, plain: Plain) -> Bucket | None:
        """Return the sizes that would hold an ordinary state; None if it must remain one."""

    @abstractmethod
    def contents(self, plain: Plain) -> Contents[Source]:
        """Return what an ordinary state holds."""


class GraphState(Generic[Plain, Source]):
    """The state of a search: an ordinary one at first, later the contents of a step's buffers."""

    def __init__(self, form: GraphForm[Plain, Source], plain: Plain, *, sentences: int) -> None:
        self.form = form
        self.plain: Plain | None = plain
        self.taken: SlotStep[Source] | None = None
        self.sentences, self.used, self.length = sentences, 0, 0
        self.prepare: Callable[[SlotStep[Source]], None] | None = None  # called on new buffers
        self._requested: Bucket | None = None

    @property
    def room(self) -> int:
        """The number of steps for which the buffers have slots."""
        if self.taken is None:
            return 0
        return (self.taken.bucket.slots - self.used) // self.taken.bucket.beam

    def advanced(self, steps: int) -> None:
        """Count steps that were done on the buffers."""
        assert self.taken is not None
        self.used, self.length = self.used + steps * self.taken.bucket.beam, self.length + steps

    def select(self, rows: Tensor) -> GraphState[Plain, Source]:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        if self.taken is not None:
            self._reorder(self.taken, rows)
            return self
        assert self.plain is not None
        self.plain, self.sentences = self.plain.select(rows), len(rows)
        bucket = self.form.bucket(self.plain)
        if bucket is not None and (step := self._offered(bucket)) is not None:
            self._load(step, self.form.contents(self.plain))
        return self

    def step(self, token: Tensor) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]."""
        if self.taken is None:
            assert self.plain is not None
            return self.form.plain.step(token, self.plain)
        if self.room == 0:
            self._make_room(self.taken)
        self.taken.token[: len(token)].copy_(token)
        self.advanced(1)
        return self.taken.replay()[: len(token)]

    def _reorder(self, step: SlotStep[Source], rows: Tensor) -> None:
        """Continue in the first lanes with the hypotheses `rows`, [B', beam]."""
        bucket, B = step.bucket, len(rows)
        flat = rows.flatten()
        if self.sentences != B:
            step.keep(rows[:, 0] // bucket.beam)
            self.sentences = B
        step.row[: len(flat)] = flat
        if bucket.lanes >= 2 * B:
            smaller = Bucket.holding(B, bucket.beam, bucket.source, self.used + bucket.beam)
            if (other := self._offered(smaller)) is not None:
                self._load(other, step.contents(B, self.used, self.length))

    def _make_room(self, step: SlotStep[Source]) -> None:
        """Drop slots that no hypothesis needs, or move to buffers with more of them."""
        beam = step.bucket.beam
        contents = step.contents(self.sentences, self.used, self.length).compacted()
        bucket = Bucket.holding(
            self.sentences, beam, step.bucket.source, contents.used + contents.used // 4 + beam
        )
        if bucket == step.bucket and contents.used < self.used:
            step.load_slots(contents)
            self.used = contents.used
            return
        self._requested = bucket
        self._load(self.form.graphs.take(bucket, self), contents)

    def _offered(self, bucket: Bucket) -> SlotStep[Source] | None:
        """Return the step of a bucket; None without one, or if it was the last one requested."""
        if bucket == self._requested:
            return None
        self._requested = bucket
        return self.form.graphs.offer(bucket, self)

    def _load(self, step: SlotStep[Source], contents: Contents[Source]) -> None:
        if self.prepare is not None:
            self.prepare(step)
        step.load(contents)
        if self.taken is not None:
            self.taken.user = None
        self.taken, self.plain = step, None
        self.used, self.length = contents.used, contents.length
