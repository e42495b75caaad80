"""Sums by bin, and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from jtrans.analysis.figures.series import by_bin, divide, pooled_series, ratio
from jtrans.analysis.study.study import Study


def test_sums_by_bin_leave_out_what_is_in_none() -> None:
    sums = by_bin(np.array([1, 1, 1, 1]), np.array([0, 0, 1, 1]), np.array([0, 1, -1, 1]), (2, 2))
    assert sums.tolist() == [[1, 1], [0, 1]]


def test_division_by_nothing_is_no_number() -> None:
    assert np.isnan(divide(np.array([0.0]), np.array([0.0])))[0]


@pytest.mark.parametrize("highest", [1.0, 4.0, None])
def test_seeds_that_vary_much_do_not_widen_an_interval_beyond_the_values_there_can_be(
    study: Study, highest: float | None
) -> None:
    hits = np.ones((len(study), 1, 2))
    none = hits * [0, 1]
    series = pooled_series(study, study.subjects[0], [hits, none], ratio, highest=highest)
    assert series.values == [0.5]
    assert series.low == [0.0]
    [high] = series.high
    assert high is not None
    assert high == highest if highest else high > 4


@pytest.mark.parametrize(("sentences", "has_interval"), [(1, False), (2, True)])
def test_a_single_sentence_has_no_interval(
    study: Study, sentences: int, has_interval: bool
) -> None:
    sums = np.zeros((len(study), 1, 2))
    sums[:sentences] = 1
    series = pooled_series(study, study.subjects[0], [sums], ratio)
    assert series.values == [1.0]
    assert [series.low != [None], series.high != [None]] == [has_interval] * 2
