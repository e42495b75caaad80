"""BPE-dropout (Provilkov et al. 2020): words split into different pieces in every epoch.

The prepared corpus holds pieces. They are merged back into words, and in each epoch each word takes
one of several variants, split with randomly dropped merges. The choice of the variant is a pure
function of seed, epoch and position, the variants of seed and word: a run that stops in the middle
of an epoch resumes with the same pieces.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from jtrans.data.prepared import SIDES, IdStore, ParallelIds, PreparedCorpus
from jtrans.errors import ConfigError
from jtrans.text.bpe import MARK
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import EOS, UNK

# Variants of a word: fewer for large corpora, so that all of them fit into memory.
MOST_VARIANTS, FEWEST_VARIANTS, VARIANTS_IN_MEMORY = 64, 4, 4_000_000


def make_bpe_dropout(corpus: PreparedCorpus, rate: float, seed: int) -> BpeDropout | None:
    """Return the BPE-dropout of the training split, None for a rate of 0.

    Raises:
        ConfigError: the corpus has no BPE.
    """
    if not rate:
        return None
    pipeline = corpus.pipeline
    if pipeline.source.codes is None and pipeline.target.codes is None:
        raise ConfigError(
            f"training.bpe_dropout {rate:g} needs BPE, {corpus.folder} has none",
            hint="set training.bpe_dropout=0, or prepare the corpus with --bpe joint",
            kind="config.bpe-dropout",
        )
    return BpeDropout(corpus.pairs("train"), pipeline, rate=rate, seed=seed)


class BpeDropout:
    """The training pairs with the pieces of each epoch; `rate` of the merges are dropped."""

    def __init__(
        self, pairs: ParallelIds, pipeline: TextPipeline, *, rate: float, seed: int
    ) -> None:
        self._pairs = pairs
        self._seed = seed
        sides = zip(SIDES, (pipeline.source, pipeline.target), strict=True)
        self._words = {
            name: _WordVariants(getattr(pairs, name), side, rate, seed)
            for name, side in sides
            if side.codes is not None
        }

    def epoch(self, epoch: int) -> ParallelIds:
        """Return the pairs of an epoch; sides without BPE stay as they are."""
        drawn = self._pairs
        for name, words in self._words.items():
            random = np.random.default_rng([self._seed, epoch, SIDES.index(name)])
            store, counts = words.draw(random)
            if name == "target":
                drawn = replace(drawn, target=store)
                continue
            labels = {
                kind: _spread(old, words, counts, store, is_entity=kind == "ner")
                for kind, old in drawn.labels.items()
            }
            drawn = replace(drawn, source=store, labels=labels)
        return drawn


class _WordVariants:
    """The words of one side, and their variants drawn so far."""

    def __init__(self, store: IdStore, side: TextSide, rate: float, seed: int) -> None:
        self._side, self._rate, self._seed = side, rate, seed
        ids, offsets = store.flat
        is_inner = np.array([token.endswith(MARK) for token in side.vocabulary.tokens])
        ends = np.flatnonzero(~is_inner[ids]) + 1  # EOS is a word of its own, too
        self.starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        # words before the end of each sentence
        self._sentences = np.searchsorted(ends, offsets, side="right")
        numbers: dict[bytes, int] = {}
        flat = np.ascontiguousarray(ids, np.int32).tobytes()
        width = np.dtype(np.int32).itemsize
        bounds = zip((self.starts * width).tolist(), (ends * width).tolist(), strict=True)
        self._types = np.fromiter(
            (numbers.setdefault(flat[a:b], len(numbers)) for a, b in bounds),
            np.int64,
            count=len(ends),
        )
        self._words = list(numbers)
        room = VARIANTS_IN_MEMORY // max(1, len(numbers))
        self._count = min(max(room, FEWEST_VARIANTS), MOST_VARIANTS)
        self._pieces = np.zeros(1024, np.int32)  # of all variants, one after the other
        self._filled = 0
        # where the pieces of each variant begin, and their number (0: not drawn yet)
        self._begin = np.zeros(len(numbers) * self._count, np.int64)
        self._sizes = np.zeros(len(numbers) * self._count, np.int32)

    def draw(self, random: np.random.Generator) -> tuple[IdStore, NDArray[np.int64]]:
        """Return new pieces for all words, and their number for each word."""
        chosen = self._types * self._count + random.integers(self._count, size=self._types.size)
        missing = np.unique(chosen[self._sizes[chosen] == 0])
        for variant in missing.tolist():
            self._add(variant)
        counts = self._sizes[chosen].astype(np.int64)
        ends = counts.cumsum()
        # position of each new piece within its word, and then the piece itself
        inside = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        ids = self._pieces[np.repeat(self._begin[chosen], counts) + inside]
        offsets = np.concatenate([np.zeros(1, np.int64), ends])[self._sentences]
        return IdStore(ids, offsets), counts

    def _add(self, variant: int) -> None:
        number, version = divmod(variant, self._count)
        ids = self._variant(np.frombuffer(self._words[number], np.int32).tolist(), version)
        while self._filled + len(ids) > self._pieces.size:
            self._pieces = np.concatenate([self._pieces, np.zeros_like(self._pieces)])
        self._pieces[self._filled : self._filled + len(ids)] = ids
        self._begin[variant], self._sizes[variant] = self._filled, len(ids)
        self._filled += len(ids)

    def _variant(self, ids: list[int], version: int) -> list[int]:
        if UNK in ids or ids == [EOS]:
            return ids  # the text of an unknown piece is lost
        vocabulary = self._side.vocabulary
        word = "".join(vocabulary.token(i).removesuffix(MARK) for i in ids[:-1])
        word += vocabulary.token(ids[-1])
        random = Random(f"{self._seed} {version} {word}")
        drawn = vocabulary.ids(self._side.draw(word, self._rate, random))
        return ids if UNK in drawn else drawn


def _spread(
    labels: IdStore,
    words: _WordVariants,
    counts: NDArray[np.int64],
    store: IdStore,
    *,
    is_entity: bool,
) -> IdStore:
    """Give all pieces of a word the label of its first one."""
    old = np.asarray(labels.flat[0], np.int64)[words.starts]
    new = np.repeat(old, counts)
    if is_entity:
        # the names are O, B-X, I-X, B-Y ...: the pieces after the first one of B-X are I-X
        is_first = np.zeros(new.size, np.bool_)
        is_first[counts.cumsum() - counts] = True
        new[~is_first & (new > 0) & (new % 2 == 1)] += 1
    return IdStore(new.astype(np.int8), store.flat[1])
