"""BPE-dropout (Provilkov et al. 2020): words split into different pieces in every epoch.

The prepared corpus holds pieces. They are merged back into words, and in each epoch each word takes
one of several variants, split with randomly dropped merges. The choice of the variant is a pure
function of seed, epoch and position, the variants of seed and word: a run that stops in the middle
of an epoch resumes with the same pieces.

Memory holds the distinct words with their variants, and one block of sentences at a time; the
pieces of an epoch are in a temporary file.

Dropped merges make sentences longer. Sentences that would become too long for the model keep the
pieces of the prepared corpus in that epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jtrans.data.ids import SIDES, IdStore, ParallelIds
from jtrans.data.prepared import PreparedCorpus
from jtrans.data.scratch import ScratchArray
from jtrans.data.word_variants import WordVariants
from jtrans.errors import ConfigError
from jtrans.text.pipeline import TextPipeline, TextSide

BLOCK = 100_000  # sentences at a time


def make_bpe_dropout(
    corpus: PreparedCorpus,
    rate: float,
    seed: int,
    *,
    longest: int | None,
    at_work: Callable[[], None],
) -> BpeDropout | None:
    """Return the BPE-dropout of the training split, None for a rate of 0.

    Args:
        corpus: the prepared corpus.
        rate: probability that a merge is dropped.
        seed: seed of the random variants and of their choice.
        longest: the most tokens of a sentence that the model can read, ``</s>`` counted.
        at_work: called repeatedly while the text is read, which may take many minutes.

    Raises:
        ConfigError: the corpus has no BPE.
    """
    if not rate:
        return None
    pipeline = corpus.pipeline
    if pipeline.source.codes is None and pipeline.target.codes is None:
        raise ConfigError(
            f"training.bpe_dropout {rate:g} needs BPE, but {corpus.folder} has none",
            hint="set training.bpe_dropout=0, or prepare the corpus with --bpe joint",
            kind="config.bpe-dropout",
        )
    pairs = corpus.pairs("train")
    return BpeDropout(pairs, pipeline, rate=rate, seed=seed, longest=longest, at_work=at_work)


class BpeDropout:
    """The training pairs with the pieces of each epoch; `rate`: probability of dropping a merge."""

    def __init__(
        self,
        pairs: ParallelIds,
        pipeline: TextPipeline,
        *,
        rate: float,
        seed: int,
        longest: int | None = None,
        at_work: Callable[[], None] = lambda: None,
    ) -> None:
        self._pairs = pairs
        self._seed = seed
        sides = zip(SIDES, (pipeline.source, pipeline.target), strict=True)
        self._words = {
            name: _Words(getattr(pairs, name), side, rate, seed, longest, at_work)
            for name, side in sides
            if side.codes is not None
        }

    def epoch(self, epoch: int) -> ParallelIds:
        """Return the pairs of an epoch; sides without BPE stay as they are."""
        drawn = self._pairs
        for name, words in self._words.items():
            random = np.random.default_rng([self._seed, epoch, SIDES.index(name)])
            if name == "source":
                source, labels = words.draw(random, drawn.labels)
                drawn = replace(drawn, source=source, labels=labels)
            else:
                target, _ = words.draw(random, {})
                drawn = replace(drawn, target=target)
        return drawn


class _Sentences(NamedTuple):
    """A block of consecutive sentences; its words are ``ids[starts[i]:ends[i]]``."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    sentences: NDArray[np.int64]  # words before each sentence, and before the end of the last one


class _Words:
    """The words of one side of the text; a type is the number of a distinct word."""

    def __init__(
        self,
        store: IdStore,
        side: TextSide,
        rate: float,
        seed: int,
        longest: int | None,
        at_work: Callable[[], None],
    ) -> None:
        self._store = store
        self._at_work = at_work
        self._longest = longest
        self._is_inner = np.array([side.is_inner(token) for token in side.vocabulary.tokens])
        types: dict[bytes, int] = {}  # from the ids of a word to its type
        numbers = ScratchArray(np.int32)
        width = np.dtype(np.int32).itemsize
        for ids, starts, ends, _ in self._blocks():
            flat = np.ascontiguousarray(ids, np.int32).tobytes()
            bounds = zip((starts * width).tolist(), (ends * width).tolist(), strict=True)
            word_types = (types.setdefault(flat[a:b], len(types)) for a, b in bounds)
            numbers.append(np.fromiter(word_types, np.int32, count=ends.size))
        self._types = numbers.read()  # the type of each word of the text, [words]
        self._variants = WordVariants([*types], side, rate, seed)

    def draw(
        self, random: np.random.Generator, labels: Mapping[str, IdStore]
    ) -> tuple[IdStore, dict[str, IdStore]]:
        """Return new pieces for all words, and the labels of these pieces."""
        pieces, lengths = ScratchArray(np.int32), []
        spread = {kind: ScratchArray(np.int8) for kind in labels}
        first_word = first_id = 0
        for block in self._blocks():
            ids, starts, ends, sentences = block
            types = self._types[first_word : first_word + ends.size]
            drawn, counts = self._variants.draw(types, random)
            if self._longest is not None:
                drawn, counts = _bounded(block, drawn, counts, self._longest)
            pieces.append(drawn)
            word_ends = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
            lengths.append(np.diff(word_ends[sentences]))
            for kind, store in labels.items():
                old = np.asarray(store.flat[0][first_id : first_id + ids.size], np.int64)[starts]
                spread[kind].append(_spread(old, counts, is_entity=kind == "ner"))
            first_word += ends.size
            first_id += ids.size
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        new_labels = {kind: IdStore(array.read(), offsets) for kind, array in spread.items()}
        return IdStore(pieces.read(), offsets), new_labels

    def _blocks(self) -> Iterator[_Sentences]:
        ids, offsets = self._store.flat
        for first in range(0, len(self._store), BLOCK):
            self._at_work()
            bounds = offsets[first : first + BLOCK + 1]
            part = ids[bounds[0] : bounds[-1]]
            ends = np.flatnonzero(~self._is_inner[part]) + 1  # EOS is a word of its own, too
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            sentences = np.searchsorted(ends, bounds - bounds[0], side="right")
            yield _Sentences(part, starts, ends, sentences)


def _bounded(
    block: _Sentences, drawn: NDArray[np.int32], counts: NDArray[np.int64], longest: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Put back the old pieces of sentences with more than `longest` new ones.

    The new pieces are `drawn`, [pieces], and `counts` is their number for each word, [words]; both
    are returned with the replacements.
    """
    word_ends = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
    is_too_long = np.diff(word_ends[block.sentences]) > longest
    if not is_too_long.any():
        return drawn, counts
    is_kept = np.repeat(is_too_long, np.diff(block.sentences))  # by word
    old_counts = block.ends - block.starts
    new_counts = np.where(is_kept, old_counts, counts)
    is_old = np.repeat(is_kept, new_counts)
    pieces = np.empty(is_old.size, np.int32)
    pieces[is_old] = block.ids[np.repeat(is_kept, old_counts)]
    pieces[~is_old] = drawn[np.repeat(~is_kept, counts)]
    return pieces, new_counts


def _spread(
    old: NDArray[np.int64], counts: NDArray[np.int64], *, is_entity: bool
) -> NDArray[np.int64]:
    """Give the label of each word, `old`, [words], to its pieces; there are `counts`, [words].

    If `is_entity`, labels are O, B-X, I-X, B-Y ...: in a word of B-X, the pieces after the first
    one get I-X.
    """
    new = np.repeat(old, counts)
    if is_entity:
        is_first = np.zeros(new.size, np.bool_)
        is_first[counts.cumsum() - counts] = True
        new[~is_first & (new > 0) & (new % 2 == 1)] += 1
    return new
