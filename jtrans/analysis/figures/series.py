"""Figures of values by bin, with bootstrap intervals and the spread of seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.results import Figure, Series
from jtrans.analysis.study.study import Study, Subject
from jtrans.evaluation.seeds import SeedSample

FEWEST = 2  # sentences: the variance of a single sentence is unknown

Score = Callable[[NDArray[Any]], NDArray[np.float64]]
Values = list[float | None]


def by_bin(
    values: NDArray[Any], sentence: NDArray[Any], place: NDArray[Any], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Sum values by the sentence and the bin of each item: [items, ...] -> [*shape, ...].

    Items in the bin -1 are left out.
    """
    has_bin = place >= 0
    sums = np.zeros((*shape, *values.shape[1:]))
    np.add.at(sums, (sentence[has_bin], place[has_bin]), values[has_bin])
    return sums


def divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """Return the quotient, nan where the divisor is 0."""
    result = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) > 0)
    return result


def ratio(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the first of two summed columns divided by the second, [..., 2] -> [...]."""
    return divide(sums[..., 0], sums[..., 1])


def with_ones(values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Append a 1 to every value, so that `ratio` of sums is the mean: [items] -> [items, 2]."""
    return np.column_stack([values, np.ones(len(values))])


def binned_figure(
    study: Study,
    values: Iterable[tuple[Subject, Sequence[NDArray[Any]]]],
    place: NDArray[Any],
    bins: list[str],
    *,
    score: Score = ratio,
    drawn_score: Score | None = None,
    sentence: NDArray[Any] | None = None,
    highest: float | None = 1.0,
    **words: Any,
) -> Figure:
    """Return a figure with a series per system from the counts of every item.

    Args:
        study: the systems.
        values: per system and seed, the summands of every item, [items, columns].
        place: the bin of each item, -1 to leave it out, [items].
        bins: their labels.
        score: turns sums into values, [..., columns] -> [...].
        drawn_score: the score of drawn test sets, if it differs.
        sentence: the sentence of each item, [items]; None if the items are the sentences.
        highest: the highest possible value, None without limit.
        words: the other fields of the figure: its name, title, question, labels and note.
    """
    sentence = np.arange(len(study)) if sentence is None else sentence
    shape = (len(study), len(bins))
    series = [
        pooled_series(
            study,
            subject,
            [by_bin(v, sentence, place, shape) for v in seeds],
            score,
            drawn_score,
            highest=highest,
        )
        for subject, seeds in values
    ]
    counts = np.bincount(place[place >= 0], minlength=len(bins)).tolist()
    return Figure(bins=bins, counts=counts, series=series, highest=highest, **words)


def share_figure(
    study: Study,
    places: Iterable[tuple[Subject, Sequence[NDArray[np.int64]]]],
    bins: list[str],
    **words: Any,
) -> Figure:
    """Return a figure of the share of the sentences of each system in every bin.

    Args:
        study: the systems.
        places: per system and seed, the bin of every sentence, [sentences].
        bins: their labels.
        words: the other fields of the figure: its name, title, question, labels and note.
    """
    series = []
    for subject, seeds in places:
        inside = [np.equal.outer(place, np.arange(len(bins))).astype(float) for place in seeds]
        sums = [np.stack([each, np.ones_like(each)], axis=2) for each in inside]
        series.append(pooled_series(study, subject, sums, ratio))
    return Figure(
        bins=bins,
        counts=[],
        series=series,
        y_label="share of sentences",
        count_label="sentences",
        total=len(study),
        **words,
    )


def pooled_series(
    study: Study,
    subject: Subject,
    sums: Sequence[NDArray[Any]],
    score: Score,
    drawn_score: Score | None = None,
    *,
    highest: float | None = 1.0,
) -> Series:
    """Return the series of a system, over its seeds.

    Args:
        study: the study whose sentences are resampled for the intervals.
        subject: the system.
        sums: per seed, [sentences, bins, columns]; a column after the first is above 0 if a
            sentence has an item in a bin.
        score: turns sums into values, [..., columns] -> [...]; nan without items.
        drawn_score: the score of drawn test sets, if it differs.
        highest: the highest possible value: an interval is cut off there and at 0, however much
            seeds vary.
    """
    values = np.stack([score(seed.sum(axis=0)) for seed in sums])  # [seeds, bins]
    drawn_score = drawn_score or score
    drawn = np.stack([drawn_score(study.bootstrap.sums(seed)) for seed in sums])
    sentences = (sums[0][:, :, 1:].sum(axis=2) > 0).sum(axis=0)
    means, low, high, spread = Values(), Values(), Values(), Values()
    limit = math.inf if highest is None else highest
    for place, count in enumerate(sentences):
        sample = SeedSample(values[:, place], drawn[:, :, place])  # drawn: [seeds, samples, bins]
        is_known = bool(np.isfinite(sample.mean))
        ends = sample.ends(0.0, limit) if is_known and count >= FEWEST else None
        means.append(sample.mean if is_known else None)
        low.append(None if ends is None else ends[0])
        high.append(None if ends is None else ends[1])
        if len(sums) > 1:
            spread.append(sample.deviation if is_known else None)
    return Series(subject.name, means, low, high, subject.index, spread)
