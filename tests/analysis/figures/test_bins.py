"""Bins of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.analysis.figures.bins import AS_IN_PAPER, Binning, Bins, parse_edges
from jtrans.errors import ConfigError


def test_equal_bins_are_those_of_the_reference_scripts() -> None:
    values = np.arange(0, 70)
    assert Bins.equal(10).find(values).tolist() == [min(v // 10, 4) for v in values]


def test_labels_name_the_values_inside() -> None:
    assert Bins.equal(10).labels == ["0–9", "10–19", "20–29", "30–39", "40+"]
    assert Bins.equal(10, shown_from=1).labels[-2:] == ["31–40", "41+"]
    assert Bins.between((1, 2, 5, 1000)).labels == ["0", "1", "2–4", "5–999", "1,000+"]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200))
def test_quantile_bins_hold_something_and_no_more_than_a_fifth_and_its_ties(
    values: list[int],
) -> None:
    numbers = np.array(values)
    bins = Bins.quantiles(numbers)
    place = bins.find(numbers)
    assert place.min() >= 0
    for index in range(len(bins)):
        inside = numbers[place == index]
        assert inside.size
        assert inside.size - (inside == inside.min()).sum() <= len(values) / 5


@pytest.mark.parametrize("text", ["", "5,", "10,5", "5,5", "-1", "a", "1.5", "٣"])
def test_edges_that_do_not_rise_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="increasing"):
        parse_edges(text)


def test_edges_take_precedence() -> None:
    binning = Binning("quantile", parse_edges(" 5, 20"))
    assert binning.make(np.array([1]), Bins.equal(10)).starts == (1, 6, 21)
    assert binning != AS_IN_PAPER


@pytest.mark.parametrize("shown_from", [0, 1])
def test_edges_mean_the_same_whatever_is_counted(shown_from: int) -> None:
    shown = np.array([1, 5, 6, 10, 11, 200])
    bins = Binning(edges=(5, 10)).make(shown - shown_from, Bins.equal(10, shown_from=shown_from))
    assert bins.labels == ["1–5", "6–10", ">10"]
    assert bins.find(shown - shown_from).tolist() == [0, 0, 1, 1, 2, 2]


def test_labels_of_edges_say_where_values_begin() -> None:
    lengths = np.array([0, 3, 12])
    assert Binning(edges=(5, 10)).make(lengths, Bins.equal(10)).labels[0] == "0–5"
    assert Binning(edges=(1, 2)).make(lengths[1:], Bins.equal(10), lowest=0).labels == [
        "0–1",
        "2",
        ">2",
    ]


def test_unknown_bins_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as refused:
        Binning("quantiles")
    assert refused.value.hint == "did you mean quantile?"
