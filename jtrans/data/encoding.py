"""BPE and vocabularies learned from training words, and segmented lines turned into ids."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jtrans.text import bpe
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import EOS, UNK, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

WordCounts = Counter[str]


@dataclass(frozen=True)
class EncodedSide:
    """All ids of one side of a split, one sentence after the other, each ending in EOS."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence, EOS counted."""
        return np.diff(self.offsets)

    @property
    def unknown(self) -> int:
        """How many tokens the vocabulary does not have."""
        return int((self.ids == UNK).sum())


def count_words(lines: Sequence[str]) -> WordCounts:
    """Count the words of segmented lines."""
    return bpe.count_words(line.split(" ") for line in lines if line)


def learn_codes(
    counts: tuple[WordCounts, WordCounts], *, mode: str, merges: int, min_frequency: int
) -> tuple[str | None, str | None]:
    """Learn the BPE codes of source and target.

    Args:
        counts: training words of both sides.
        mode: "joint", "separate" or "none".
        merges: merges to learn, of each side when separate.
        min_frequency: pairs of symbols rarer than this are not merged.
    """
    if mode == "none":
        return None, None
    if mode == "joint":
        codes = bpe.learn(counts, merges, min_frequency=min_frequency)
        return codes, codes
    source, target = (bpe.learn([side], merges, min_frequency=min_frequency) for side in counts)
    return source, target


def learn_vocabularies(
    sides: tuple[TextSide, TextSide],
    counts: tuple[WordCounts, WordCounts],
    *,
    mode: str,
    min_count: int,
) -> TextPipeline:
    """Complete a pipeline whose sides have their codes.

    Args:
        sides: source and target, with segmenter and codes.
        counts: training words of both sides.
        mode: "joint" (one vocabulary for both sides) or "separate".
        min_count: rarer tokens are left out.
    """
    source_pieces, target_pieces = (
        _count_pieces(side, words) for side, words in zip(sides, counts, strict=True)
    )
    if mode == "joint":
        source = target = Vocabulary.build(source_pieces + target_pieces, min_count=min_count)
    else:
        source = Vocabulary.build(source_pieces, min_count=min_count)
        target = Vocabulary.build(target_pieces, min_count=min_count)
    return TextPipeline(replace(sides[0], vocabulary=source), replace(sides[1], vocabulary=target))


def encode_lines(side: TextSide, lines: Sequence[str]) -> EncodedSide:
    """Turn segmented lines into ids; each word is looked up once."""
    known: dict[str, list[int]] = {}
    ids = array("i")
    ends = np.zeros(len(lines) + 1, dtype=np.int64)
    for i, line in enumerate(lines, start=1):
        for word in line.split(" ") if line else ():
            word_ids = known.get(word)
            if word_ids is None:
                word_ids = known[word] = side.vocabulary.ids(side.split([word]))
            ids.extend(word_ids)
        ids.append(EOS)
        ends[i] = len(ids)
    return EncodedSide(np.array(ids, dtype=np.int32), ends)


def _count_pieces(side: TextSide, words: WordCounts) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for piece in side.split([word]):
            pieces[piece] += count
    return pieces
