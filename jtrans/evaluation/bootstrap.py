"""Bootstrap resampling: draw test sets from the original one to see how much a score varies.

The drawn test sets are those of sacreBLEU (same generator, seed and number), so the interval of a
corpus score is the one that sacreBLEU reports.
"""

from __future__ import annotations

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
        n, generator = self.sentences, np.random.default_rng(SEED)
        weights = np.zeros((SAMPLES, n), dtype=np.float32)
        for row in weights:  # one set at a time: the same draws in a third of the memory
            row[:] = np.bincount(generator.choice(n, size=n, replace=True), minlength=n)
        return weights

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sum values of sentences, [sentences, ...], over each drawn set, [samples, ...]."""
        flat = values.reshape(self.sentences, -1).astype(np.float64)
        summed = [  # in parts: exact sums need weights in float64, which take twice the memory
            self.weights[first : first + ROWS_AT_ONCE].astype(np.float64) @ flat
            for first in range(0, SAMPLES, ROWS_AT_ONCE)
        ]
        return np.concatenate(summed).reshape(SAMPLES, *values.shape[1:])


def p_value(deviations: NDArray[np.float64], difference: float) -> float:
    """Return the two-sided p-value of a difference.

    ``(1 + #{|deviation| >= |difference|}) / (samples + 1)``: the share of drawn test sets whose
    difference is as far from the mean as the observed one is from 0. The 1 is the observed test set
    itself (Davison and Hinkley, 1997, 4.4; Noreen, 1989). Of equal systems, 5 % get less than
    0.05; with ``|d| - mean |d| > |difference|``, sacreBLEU's ``--paired-bs``, 12 % do.

    Args:
        deviations: the difference on every drawn test set minus the mean of all, [samples].
        difference: the difference on the real test set; 0 has p = 1.
    """
    if difference == 0:
        return 1.0
    # the factor counts ties despite rounding: small test sets are often drawn exactly as observed
    reached = np.abs(deviations) >= abs(difference) * (1 - 1e-9)
    return (int(reached.sum()) + 1) / (len(deviations) + 1)


def half_width(drawn: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % interval of drawn scores, [samples], as sacreBLEU does."""
    tail = len(drawn) // 40
    low, high = tail, len(drawn) - tail - 1
    ordered = np.partition(drawn, (low, high))
    return float(ordered[high] - ordered[low]) / 2
