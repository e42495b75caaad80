"""The state of a search whose steps are replayed from the buffers of a captured step."""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor

from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured.graphs import Bucket, StepGraphs
from jtrans.decoding.prepared.captured.slots import Contents, SlotStep, Source


class Selectable(Protocol):
    """The state of a search without buffers."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the hypotheses `rows`, [B', beam']."""
        ...


Plain = TypeVar("Plain", bound=Selectable)
PlainRead = TypeVar("PlainRead", bound=Selectable, contravariant=True)


class GraphForm(Protocol[PlainRead, Source]):
    """A prepared form with captured steps."""

    @property
    def graphs(self) -> StepGraphs[SlotStep[Source]]:
        """The captured steps."""
        ...

    @property
    def plain(self) -> Searchable:
        """The form without them."""
        ...

    def bucket(self, plain: PlainRead) -> Bucket | None:
        """Return the sizes that would hold an ordinary state; None if it must stay one."""
        ...

    def contents(self, plain: PlainRead) -> Contents[Source]:
        """Return what an ordinary state holds."""
        ...


class GraphState(Generic[Plain, Source]):
    """The state of a search: an ordinary one, or that of buffers once they are taken.

    Args:
        form: whose graphs are used.
        plain: the ordinary state.
        sentences: B.
    """

    def __init__(self, form: GraphForm[Plain, Source], plain: Plain, *, sentences: int) -> None:
        self.form = form
        self.plain: Plain | None = plain
        self.taken: SlotStep[Source] | None = None
        self.sentences, self.used, self.length = sentences, 0, 0
        self._asked: Bucket | None = None

    def select(self, rows: Tensor) -> GraphState[Plain, Source]:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        if self.taken is not None:
            self._reorder(self.taken, rows)
            return self
        assert self.plain is not None
        self.plain, self.sentences = self.plain.select(rows), len(rows)
        bucket = self.form.bucket(self.plain)
        if bucket is not None and (step := self._take(bucket)) is not None:
            self._load(step, self.form.contents(self.plain))
        return self

    def step(self, token: Tensor) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]."""
        if self.taken is None:
            assert self.plain is not None
            return self.form.plain.step(token, self.plain)
        if self.used + self.taken.bucket.beam > self.taken.bucket.slots:
            self._make_room(self.taken)
        self.taken.token[: len(token)].copy_(token)
        self.used, self.length = self.used + self.taken.bucket.beam, self.length + 1
        return self.taken.replay()[: len(token)]

    def _reorder(self, step: SlotStep[Source], rows: Tensor) -> None:
        """Let the first lanes go on as `rows`, [B', beam]."""
        bucket, B = step.bucket, len(rows)
        flat = rows.flatten()
        if self.sentences != B:
            step.keep(rows[:, 0] // bucket.beam)
            self.sentences = B
        step.row[: len(flat)] = flat
        if bucket.lanes >= 2 * B:
            smaller = Bucket.holding(B, bucket.beam, bucket.source, self.used + bucket.beam)
            if (other := self._take(smaller)) is not None:
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
        taken = self._take(bucket, needed=True)
        assert taken is not None
        self._load(taken, contents)

    def _take(self, bucket: Bucket, *, needed: bool = False) -> SlotStep[Source] | None:
        """Return the step of a bucket; None if there is none, or was none when last asked."""
        if bucket == self._asked and not needed:  # in vain
            return None
        self._asked = bucket
        return self.form.graphs.take(bucket, self, needed=needed)

    def _load(self, step: SlotStep[Source], contents: Contents[Source]) -> None:
        step.load(contents)
        if self.taken is not None:
            self.taken.user = None
        self.taken, self.plain = step, None
        self.used, self.length = contents.used, contents.length
