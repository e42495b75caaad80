"""Match the words of two segmentations of one text by the characters they share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


def owners(words: Sequence[str], others: Sequence[str]) -> list[list[int]] | None:
    """Return for each of `others` the positions in `words` of its characters.

    None if the two segmentations do not spell the same text.
    """
    if "".join(words) != "".join(others):
        return None
    places = [place for place, word in enumerate(words) for _ in word]
    ends = [0, *accumulate(map(len, others))]
    return [places[start:end] for start, end in pairwise(ends)]
