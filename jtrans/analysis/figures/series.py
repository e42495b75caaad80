"""The series of a figure: values by bin, with bootstrap intervals and the spread of seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.figures.results import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.analysis.study.study import Subject
    from jtrans.evaluation.bootstrap import Bootstrap

LEVEL = 95.0  # percent
FEWEST = 2  # sentences: one alone says nothing of how much sentences differ

Values = list[float | None]


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
    has_bin = place >= 0
    cell = sentence[has_bin] * shape[1] + place[has_bin]
    sums = np.zeros(shape[0] * shape[1])
    np.add.at(sums, cell, values[has_bin])
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
