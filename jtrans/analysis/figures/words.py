"""Which pieces make up a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jtrans.text.bpe import MARK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.text.pipeline import TextSide


def continues(side: TextSide, piece: str) -> bool:
    """Whether the word goes on after a piece."""
    return side.codes is not None and piece.endswith(MARK)


def word_numbers(side: TextSide, pieces: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of the word that each piece of a sentence belongs to, from 0."""
    ends = np.array([not continues(side, piece) for piece in pieces], dtype=np.int64)
    numbers: NDArray[np.int64] = np.cumsum(ends) - ends
    return numbers
