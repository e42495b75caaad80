"""Bootstrap resampling: draw test sets from the original one to see how much a number varies.

The draws are those of sacreBLEU (same generator, seed and number), so the interval of a corpus
score is the one that sacreBLEU reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLES = 1000
SEED = 12345  # sacreBLEU's default, so that its command line gives the same intervals
ROWS_AT_ONCE = 100


class Bootstrap:
    """Test sets drawn with replacement from `sentences` sentences, the same in every run."""

    def __init__(self, sentences: int) -> None:
        self.sentences = sentences

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """How often each sentence is in each drawn set, [samples, sentences]."""
        n = self.sentences
        drawn = np.random.default_rng(SEED).choice(n, size=(SAMPLES, n), replace=True)
        weights = np.zeros((SAMPLES, n), dtype=np.float32)
        for row, sample in zip(weights, drawn, strict=True):
            row[:] = np.bincount(sample, minlength=n)
        return weights

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sum values of sentences, [sentences, ...], over each drawn set, [samples, ...]."""
        flat = values.reshape(self.sentences, -1).astype(np.float64)
        summed = [  # in parts: weights become float64 for exact sums of whole numbers
            self.weights[first : first + ROWS_AT_ONCE].astype(np.float64) @ flat
            for first in range(0, SAMPLES, ROWS_AT_ONCE)
        ]
        return np.concatenate(summed).reshape(SAMPLES, *values.shape[1:])


def p_value(drawn: NDArray[np.float64], difference: float) -> float:
    """Return the p-value of a difference by sacreBLEU's paired bootstrap.

    Args:
        drawn: the difference on every drawn test set.
        difference: on the real one; 0 has p = 1.
    """
    if difference == 0:
        return 1.0
    centred = np.abs(drawn - drawn.mean())
    return (float((centred > abs(difference)).sum()) + 1) / (len(drawn) + 1)


@contextmanager
def default_seed() -> Iterator[None]:
    """Have sacreBLEU draw its samples from its default seed, `SEED`, whatever the environment says.

    Two threads must not do this at the same time.
    """
    former = os.environ.pop("SACREBLEU_SEED", None)
    try:
        yield
    finally:
        if former is not None:
            os.environ["SACREBLEU_SEED"] = former
