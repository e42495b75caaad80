"""Sums by bin."""

from __future__ import annotations

import numpy as np

from jtrans.analysis.figures.series import by_bin, divide


def test_sums_by_bin_leave_out_what_is_in_none() -> None:
    sums = by_bin(np.array([1, 1, 1, 1]), np.array([0, 0, 1, 1]), np.array([0, 1, -1, 1]), (2, 2))
    assert sums.tolist() == [[1, 1], [0, 1]]


def test_division_by_nothing_is_no_number() -> None:
    assert np.isnan(divide(np.array([0.0]), np.array([0.0])))[0]
