"""Colours that can be read, and marks of what is little or nothing."""

from __future__ import annotations

import re

import pytest
from plugins.folders import REPOSITORY

from jtrans.analysis.figures.results import Figure, Series
from jtrans.analysis.output.scales import (
    COLOURS,
    DARK_INK,
    DARK_PAPER,
    PAPER,
    READABLE,
    contrast,
    dark_colour,
    empty_runs,
    few_note,
    readable,
)

CSS = (REPOSITORY / "jtrans/analysis/report/templates/page.css").read_text(encoding="utf-8")


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("colour", COLOURS)
def test_names_can_be_read_on_light_and_dark_paper(colour: str) -> None:
    assert contrast(readable(colour, PAPER), PAPER) >= READABLE
    assert contrast(dark_colour(colour), DARK_PAPER) >= READABLE


def test_a_colour_that_can_be_read_stays() -> None:
    assert readable(COLOURS[0], PAPER) == COLOURS[0]


def test_dark_colours_stay_different() -> None:
    assert len({dark_colour(colour) for colour in COLOURS}) == len(COLOURS)


def test_the_page_has_the_paper_the_colours_are_made_for() -> None:
    light, dark = re.findall(r"--paper: (#\w+); --ink: (#\w+); --soft: (#\w+);", CSS)[:2]
    assert light[0] in ("#fff", PAPER)
    assert dark[:2] == (DARK_PAPER, DARK_INK)
    washes = re.findall(r"--wash: (#\w+);", CSS)
    for paper, colours in ((PAPER, light), (DARK_PAPER, dark)):
        assert all(contrast(ink, paper) >= READABLE for ink in colours[1:])
    for wash, colours in zip(washes, (light, dark), strict=False):
        assert all(contrast(ink, wash) >= READABLE for ink in colours[1:])


def _figure(counts: list[int], values: list[float | None]) -> Figure:
    nothing: list[float | None] = [None] * len(values)
    series = [Series("a", values, nothing, nothing)]
    bins = [str(place) for place in range(len(values))]
    return Figure("f", "t", "q", "x", "y", bins, counts, series, count_label="words")


def test_bins_without_data_are_one_run_where_they_touch() -> None:
    assert empty_runs(_figure([0, 0, 9, 0, 9], [None, None, 1.0, None, 1.0])) == [(0, 1), (3, 3)]


def test_a_figure_says_what_hollow_means_only_where_something_is() -> None:
    assert few_note(_figure([20, 19], [1.0, 1.0])) == "hollow: fewer than 20 words"
    assert few_note(_figure([20, 20], [1.0, 1.0])) == ""
    assert few_note(_figure([20, 0], [1.0, None])) == ""
