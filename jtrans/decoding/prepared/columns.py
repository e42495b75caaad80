"""The columns that a step of a search adds to joint models' grids, in blocks of sentences.

For beam hypotheses of a sentence a step adds beam columns of S positions. The rows of a block lie
packed, [hypothesis, sentence, source position]: no source is padded, and products take the rows of
all its sentences at once. A sentence that leaves is left out of the next step's blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from jtrans.decoding.prepared.slots import Slots, reserve, take_slots

# Rows of a block. Smaller blocks stay in a core's cache, but the weights are read for every block:
# a search in bf16 took a fifth longer with 512 rows, and up to a quarter longer with 2048.
ROWS = 1536
USUAL_BEAM = 5


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Neighbouring sentences whose keys and values lie side by side."""

    states: Tensor  # of the source without padding, [R, E], half as wide if grid = "concat"
    first: Tensor  # its share of the first layer's queries, keys and values, [R, 3E]
    slots: Slots  # the keys and values of their hypotheses


@dataclass(frozen=True)
class Sentence:
    """A sentence of a group."""

    group: Neighbours
    start: int  # its first position in the group
    length: int  # S


@dataclass(frozen=True)
class Segment:
    """Neighbouring sentences of one group."""

    group: Neighbours
    held: slice  # their positions in the group
    positions: slice  # their positions in the block


@dataclass(frozen=True)
class SameLength:
    """Neighbouring sentences of one source length."""

    sentences: int  # number of sentences
    length: int  # S
    positions: slice  # their positions in the block


class Block:
    """Sentences that are computed together in all layers.

    Args:
        first: the number of the first sentence in the state.
        sentences: the sentences.

    Attributes:
        positions: R, the sum of their lengths.
        owner: the number of the sentence of each position, [R].
        segments: the sentences by group.
        runs: the sentences by source length.
    """

    def __init__(self, first: int, sentences: Sequence[Sentence]) -> None:
        lengths = torch.tensor([sentence.length for sentence in sentences])
        self.owner = torch.arange(first, first + len(sentences)).repeat_interleave(lengths)
        self.positions = len(self.owner)
        self.segments = _segments(sentences)
        self.runs = _runs(sentences)

    @cached_property
    def states(self) -> Tensor:
        """The states of the source, [R, E]."""
        return torch.cat([part.group.states[part.held] for part in self.segments])

    @cached_property
    def first(self) -> Tensor:
        """The source's share of the first layer's queries, keys and values, [R, 3E]."""
        return torch.cat([part.group.first[part.held] for part in self.segments])


class JointState:
    """The state of the prefixes of N = A x beam hypotheses.

    Args:
        sentences: the A sentences still in the search.
        mask: True where a slot belongs to a hypothesis's prefix, [A, beam, slots].
        length: positions read so far.
        blocks: the sentences in blocks; None cuts them anew.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        mask: Tensor,
        length: int,
        blocks: Sequence[Block] | None = None,
    ) -> None:
        self.sentences = sentences
        self.mask = mask
        self.length = length
        self.blocks = cut(sentences, self.beam) if blocks is None else blocks
        # the slots of the last columns, [A, beam]
        self.new = torch.empty(len(sentences), self.beam, dtype=torch.int64)

    @property
    def beam(self) -> int:
        """The number of hypotheses per sentence."""
        return self.mask.shape[1]

    def select(self, rows: Tensor) -> JointState:
        """Return the state of the hypotheses `rows`, [A', beam']; this one must not be reused."""
        numbers = rows[:, 0] // self.beam
        mask = self.mask[numbers[:, None], rows % self.beam]
        if len(rows) < len(self.sentences):
            left = [self.sentences[n] for n in numbers.tolist()]
            return JointState(left, mask, self.length)
        blocks = self.blocks if rows.shape[1] == self.beam else None
        return JointState(self.sentences, mask, self.length, blocks)

    def take_slots(self) -> None:
        """Give each hypothesis a slot for its next column."""
        self.mask, self.new = take_slots(self.mask)
        ends = (self.new[:, -1] + 1).tolist()  # they are in order
        used: dict[Neighbours, int] = {}
        for sentence, end in zip(self.sentences, ends, strict=True):
            used[sentence.group] = max(end, used.get(sentence.group, 0))
        reserve([group.slots for group in used], [*used.values()])


def cut(sentences: Sequence[Sentence], beam: int) -> list[Block]:
    """Cut sentences into blocks of about `ROWS` rows."""
    blocks, first = [], 0
    for end in ends_of_parts([sentence.length for sentence in sentences], beam):
        blocks.append(Block(first, sentences[first:end]))
        first = end
    return blocks


def ends_of_parts(lengths: Sequence[int], beam: int = USUAL_BEAM) -> list[int]:
    """Return where sentences of these lengths are cut into parts of about `ROWS` rows."""
    ends, rows = [], 0
    for number, S in enumerate(lengths):
        if rows and rows + beam * S > ROWS:
            ends.append(number)
            rows = 0
        rows += beam * S
    return [*ends, len(lengths)] if lengths else []


def _segments(sentences: Sequence[Sentence]) -> list[Segment]:
    parts: list[Segment] = []
    position = 0
    for sentence in sentences:
        start, end, S = sentence.start, sentence.start + sentence.length, sentence.length
        last = parts[-1] if parts else None
        if last is not None and (last.group, last.held.stop) == (sentence.group, start):
            held = slice(last.held.start, end)
            parts[-1] = Segment(last.group, held, slice(last.positions.start, position + S))
        else:
            parts.append(Segment(sentence.group, slice(start, end), slice(position, position + S)))
        position += S
    return parts


def _runs(sentences: Sequence[Sentence]) -> list[SameLength]:
    runs, position = [], 0
    for S, members in groupby(sentence.length for sentence in sentences):
        count = len([*members])
        runs.append(SameLength(count, S, slice(position, position + count * S)))
        position += count * S
    return runs
