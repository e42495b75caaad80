"""The ways in which BPE-dropout splits the words of a text, drawn when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from jtrans.data.scratch import scratch_zeros
from jtrans.text.bpe import MARK
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import EOS, UNK

# Variants of a word: fewer for large corpora, so that all of them fit into memory.
MOST_VARIANTS, FEWEST_VARIANTS, VARIANTS_IN_MEMORY = 64, 4, 4_000_000


class WordVariants:
    """Some variants of each different word, a pure function of seed and word.

    Args:
        words: the ids of each word, as the bytes of int32.
        side: the language's vocabulary and BPE.
        rate: the probability that a merge is dropped.
        seed: decides which merges are dropped.
    """

    def __init__(self, words: Sequence[bytes], side: TextSide, rate: float, seed: int) -> None:
        self._side, self._rate, self._seed = side, rate, seed
        width = np.dtype(np.int32).itemsize
        self._words = np.frombuffer(b"".join(words), np.int32)
        sizes = np.fromiter((len(word) // width for word in words), np.int64, count=len(words))
        self._bounds = np.concatenate([np.zeros(1, np.int64), sizes.cumsum()])
        room = VARIANTS_IN_MEMORY // max(1, len(words))
        self._count = min(max(room, FEWEST_VARIANTS), MOST_VARIANTS)
        self._pieces = scratch_zeros(1024, np.int32)  # the pieces of all variants, concatenated
        self._filled = 0
        # where the pieces of each variant begin, and their number (0: not drawn yet)
        self._begin = scratch_zeros(len(words) * self._count, np.int64)
        self._sizes = scratch_zeros(len(words) * self._count, np.int32)

    def draw(
        self, types: NDArray[np.int32], random: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the pieces of one variant of each word, [pieces], and their number for each, [n].

        Args:
            types: the words, as indices into `words`, [n].
            random: chooses the variants.
        """
        chosen = types.astype(np.int64) * self._count + random.integers(
            self._count, size=types.size
        )
        for variant in np.unique(chosen[self._sizes[chosen] == 0]).tolist():
            self._add(variant)
        counts = self._sizes[chosen].astype(np.int64)
        ends = counts.cumsum()
        # position of each new piece within its word, and then the piece itself
        inside = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        return self._pieces[np.repeat(self._begin[chosen], counts) + inside], counts

    def _add(self, variant: int) -> None:
        number, version = divmod(variant, self._count)
        word = self._words[self._bounds[number] : self._bounds[number + 1]].tolist()
        ids = self._variant(word, version)
        while self._filled + len(ids) > self._pieces.size:
            larger = scratch_zeros(2 * self._pieces.size, np.int32)
            larger[: self._filled] = self._pieces[: self._filled]
            self._pieces = larger
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
