"""Colours that can be read, and marks of what is little or nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from plugins.folders import REPOSITORY

from jtrans.analysis.figures.results import Figure, Series
from jtrans.analysis.output.scales import (
    COLOURS,
    DARK_COLOURS,
    TEXT_COLOURS,
    empty_runs,
    extremes,
    few_note,
    is_few,
    ticks,
    total_note,
)

CSS = (REPOSITORY / "jtrans/analysis/report/templates/page.css").read_text(encoding="utf-8")


READABLE = 4.5  # WCAG level AA


def contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    low, high = sorted(map(_luminance, (colour, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#fff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_all_text_can_be_read_on_light_and_dark_paper() -> None:
    papers = re.findall(r"--paper: (#\w+); --ink: (#\w+); --soft: (#\w+);.*?--wash: (#\w+);", CSS)
    for (paper, ink, soft, wash), names in zip(
        papers[:2], (TEXT_COLOURS, DARK_COLOURS), strict=True
    ):
        assert all(contrast(colour, paper) >= READABLE for colour in (ink, soft, *names))
        assert all(contrast(colour, wash) >= READABLE for colour in (ink, soft))


@pytest.mark.parametrize("palette", [COLOURS, TEXT_COLOURS, DARK_COLOURS])
def test_every_system_has_a_colour_of_its_own(palette: list[str]) -> None:
    assert len(set(palette)) == len(COLOURS)


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


def test_shares_of_few_items_are_hollow_in_every_bin() -> None:
    figure = replace(_figure([], [0.5, 0.5]), total=19)
    assert [is_few(figure, place) for place in (0, 1)] == [True, True]
    assert (total_note(figure), few_note(figure)) == ("n = 19 words", "hollow: fewer than 20 words")
    assert (total_note(replace(figure, total=1)), total_note(_figure([], [0.5]))) == (
        "n = 1 word",
        "",
    )
    assert few_note(replace(figure, total=20)) == few_note(_figure([], [0.5])) == ""


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_the_axis_of_equal_values_stays_where_values_can_be(value: float) -> None:
    marks = ticks(*extremes(_figure([30, 30], [value, value])))
    assert marks[0] < marks[-1]
    assert 0 <= marks[0] <= value <= marks[-1] <= 1
