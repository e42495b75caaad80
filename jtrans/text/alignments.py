"""Word alignments in Pharaoh format, and the words that subwords or other words belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from jtrans.text.pipeline import TextSide

WordAlignment = list[tuple[int, int]]  # of a sentence: (source word, target word)


def to_pharaoh(alignment: Iterable[tuple[int, int]]) -> str:
    """Return an alignment in Pharaoh format, by source word: ``0-0 1-2``."""
    return " ".join(f"{i}-{j}" for i, j in sorted(alignment))


def from_pharaoh(line: str) -> WordAlignment:
    """Parse the output of `to_pharaoh`."""
    return [(int(i), int(j)) for i, j in (pair.split("-") for pair in line.split())]


def word_numbers(side: TextSide, pieces: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of the word that each subword belongs to, from 0, [pieces]."""
    ends = np.array([not side.is_inner(piece) for piece in pieces], dtype=np.int64)
    numbers: NDArray[np.int64] = np.cumsum(ends) - ends
    return numbers


def owners(words: Sequence[str], others: Sequence[str]) -> list[list[int]] | None:
    """Return, for each of `others`, the position in `words` of the word each character is in.

    None if the two segmentations do not spell the same text.
    """
    if "".join(words) != "".join(others):
        return None
    places = [place for place, word in enumerate(words) for _ in word]
    ends = [0, *accumulate(map(len, others))]
    return [places[start:end] for start, end in pairwise(ends)]
