"""How a run scores the references of a split, teacher-forced: log-probabilities and hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.decoding.result_cache import CachedResult
    from jtrans.decoding.translator import Translator


@dataclass(frozen=True)
class TeacherForcedSplit:
    """Every reference token of a split, one after the other, ``</s>`` of each sentence counted.

    Args:
        ids: of the reference tokens.
        log_probs: of each token given source and the tokens before it.
        hits: whether the most probable token was this one.
        offsets: where each sentence begins, and where the last one ends.
    """

    ids: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    hits: NDArray[np.bool_]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sentence(self) -> NDArray[np.int64]:
        """The sentence of every token."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def position(self) -> NDArray[np.int64]:
        """The position of every token in its sentence, from 0."""
        return np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))


def score_references(
    cached: CachedResult,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    load: Callable[[], Translator],
    progress: Progress,
) -> TeacherForcedSplit:
    """Return the scores of a split's references, from the result cache if they are there.

    Args:
        cached: their place in the cache.
        sources: source ids of every sentence, each ending in EOS.
        targets: reference ids, the same.
        load: called only when there is something to compute.
        progress: for reporting how far the work is.
    """
    lengths = [len(target) for target in targets]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.concatenate(targets).astype(np.int32)
    scores = cached.read()
    if scores is None or not all(len(array) == len(ids) for array in scores.values()):
        scores = _score(sources, targets, load(), progress)
        cached.write(scores, progress)
    return TeacherForcedSplit(ids, scores["log_probs"], scores["hits"], offsets)


def _score(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    translator: Translator,
    progress: Progress,
) -> dict[str, NDArray[Any]]:
    from jtrans.decoding.teacher_forcing import teacher_forced_scores

    sentences = teacher_forced_scores(
        translator.models[0], sources, targets, precision=translator.precision, progress=progress
    )
    return {
        "log_probs": np.concatenate([scores.log_probs for scores in sentences]).astype(np.float32),
        "hits": np.concatenate([scores.hits for scores in sentences]).astype(np.bool_),
    }
