"""Intervals by bootstrap: draw test sets from the one there is, and see how a number moves.

The draws are those of sacreBLEU (same generator, seed and number), so the interval of a corpus
score is the one that sacreBLEU reports.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.figures.figure import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.analysis.study.study import Subject

SAMPLES = 1000
SEED = 12345
LEVEL = 95.0  # percent
ROWS_AT_ONCE = 100
FEWEST = 2  # sentences: one alone says nothing of how much sentences differ

Values = list[float | None]


class Bootstrap:
    """Test sets drawn with replacement from `sentences` sentences, the same at every run."""

    def __init__(self, sentences: int, *, samples: int = SAMPLES, seed: int = SEED) -> None:
        self.sentences = sentences
        self.samples = samples
        self.seed = seed

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """How often each sentence is in each drawn set, [samples, sentences]."""
        generator = np.random.default_rng(self.seed)
        n = self.sentences
        drawn = generator.choice(n, size=(self.samples, n), replace=True)
        weights = np.zeros((self.samples, n), dtype=np.float32)
        for row, sample in zip(weights, drawn, strict=True):
            row[:] = np.bincount(sample, minlength=n)
        return weights

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sum values of sentences, [sentences, ...], over each drawn set, [samples, ...]."""
        flat = values.reshape(self.sentences, -1).astype(np.float64)
        summed = [  # in parts: weights become float64 for exact sums of whole numbers
            self.weights[first : first + ROWS_AT_ONCE].astype(np.float64) @ flat
            for first in range(0, self.samples, ROWS_AT_ONCE)
        ]
        return np.concatenate(summed).reshape(self.samples, *values.shape[1:])


def by_bin(
    values: NDArray[Any], sentence: NDArray[Any], place: NDArray[Any], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Sum values by sentence and bin.

    Args:
        values: of each item.
        sentence: the sentence of each item.
        place: the bin of each item, -1 to leave it out.
        shape: numbers of sentences and bins.
    """
    kept = place >= 0
    cell = sentence[kept] * shape[1] + place[kept]
    sums = np.zeros(shape[0] * shape[1])
    np.add.at(sums, cell, values[kept])
    return sums.reshape(shape)


def divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """Return the quotient, nan where there is nothing to divide by."""
    result = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) > 0)
    return result


def pooled_series(
    subject: Subject,
    values: Sequence[NDArray[np.float64]],
    samples: Sequence[NDArray[np.float64]],
    sentences: NDArray[Any],
) -> Series:
    """Return the series of a system from the numbers of its seeds.

    Args:
        subject: the system.
        values: per seed, the value of each bin; nan where there is none.
        samples: per seed, the same for every drawn test set, [samples, bins].
        sentences: how many sentences have something in each bin.
    """
    mean = np.mean(np.stack(values), axis=0)
    drawn = np.mean(np.stack(samples), axis=0)
    low, high = [], []
    for place, count in enumerate(sentences):
        column = drawn[:, place][np.isfinite(drawn[:, place])]
        is_known = bool(np.isfinite(mean[place])) and count >= FEWEST and column.size > 0
        ends = np.percentile(column, [(100 - LEVEL) / 2, (100 + LEVEL) / 2]) if is_known else None
        low.append(None if ends is None else float(ends[0]))
        high.append(None if ends is None else float(ends[1]))
    spread: Values = []
    if len(values) > 1:
        spread = [
            statistics.stdev(column) if np.isfinite(column).all() else None
            for column in np.stack(values, axis=1).tolist()
        ]
    return Series(subject.name, known(mean), low, high, subject.index, spread)


def known(values: NDArray[np.float64]) -> Values:
    """Return numbers, None for nan: "no data" has one form only."""
    return [float(value) if np.isfinite(value) else None for value in values]


def ratio_series(
    subject: Subject,
    bootstrap: Bootstrap,
    numerators: Sequence[NDArray[Any]],
    denominators: Sequence[NDArray[Any]],
) -> Series:
    """Return the series of sums divided by sums, such as hits by tokens.

    Args:
        subject: the system.
        bootstrap: over the sentences.
        numerators: per seed, by sentence and bin.
        denominators: the same.
    """
    values = [
        divide(top.sum(axis=0), bottom.sum(axis=0))
        for top, bottom in zip(numerators, denominators, strict=True)
    ]
    samples = [
        divide(bootstrap.sums(top), bootstrap.sums(bottom))
        for top, bottom in zip(numerators, denominators, strict=True)
    ]
    return pooled_series(subject, values, samples, (denominators[0] > 0).sum(axis=0))
