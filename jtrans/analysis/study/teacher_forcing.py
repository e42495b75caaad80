"""Teacher-forced scores of a split's references by a run: log-probabilities and hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TeacherForcedSplit:
    """Every reference token of a split in order, with the ``</s>`` of each sentence."""

    ids: NDArray[np.int32]  # of the reference tokens, [tokens]
    log_probs: NDArray[np.float32]  # of each token given the source and earlier tokens, [tokens]
    hits: NDArray[np.bool_]  # whether each token was the most probable, [tokens]
    offsets: NDArray[np.int64]  # where each sentence begins, and the last ends, [sentences + 1]

    @classmethod
    def of(
        cls,
        references: Sequence[Sequence[int]],
        log_probs: NDArray[np.float32],
        hits: NDArray[np.bool_],
    ) -> TeacherForcedSplit:
        """Return the scores of references that are given as ids, each ending in EOS."""
        offsets = np.cumsum([0, *map(len, references)])
        return cls(np.concatenate(references).astype(np.int32), log_probs, hits, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sentence(self) -> NDArray[np.int64]:
        """The sentence of every token, [tokens]."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def position(self) -> NDArray[np.int64]:
        """The position of every token in its sentence, from 0, [tokens]."""
        return np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
