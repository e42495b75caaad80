"""Charts of the page: what they must never draw."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.analysis.figures.results import NO_DATA, Figure, Series
from jtrans.analysis.output.charts import Curve, draw, draw_curves
from jtrans.analysis.output.scales import tick_labels, ticks

numbers = st.floats(-1e6, 1e6, allow_nan=False)


def _figure(series: list[Series], **more: Any) -> Figure:
    bins = [str(place) for place in range(len(series[0].values))]
    words: dict[str, Any] = {
        "name": "f",
        "title": "T & <t>",
        "question": "?",
        "x_label": "x",
        "y_label": "y",
        "bins": bins,
        "counts": [7] * len(bins),
        **more,
    }
    return Figure(series=series, **words)


def _charts(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(f"<all>{svg}</all>"))


def _texts(svg: str) -> list[str]:
    return ["".join(found.itertext()) for chart in _charts(svg) for found in chart.iter("text")]


@given(numbers, numbers)
def test_ticks_are_few_round_numbers_around_the_data(one: float, other: float) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high)
    assert 2 <= len(found) <= 9
    slack = 1e-6 * (1 + abs(low) + abs(high))
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert all(a < b for a, b in pairwise(found))


def test_tick_labels_have_the_same_number_of_digits() -> None:
    assert tick_labels([0.0, 0.25, 0.5]) == ["0.00", "0.25", "0.50"]
    assert tick_labels([0.0, 1000.0]) == ["0", "1,000"]


values = st.lists(st.none() | st.floats(0, 100), min_size=3, max_size=3)


@given(values, values, st.sampled_from(["line", "bars"]))
def test_any_figure_is_sound_svg_without_nan(
    one: list[float | None], other: list[float | None], kind: str
) -> None:
    number = 1 if kind == "bars" else 3
    series = [
        Series("a", one[:number], one[:number], one[:number], 0),
        Series("b <c>", other[:number], [None] * number, [None] * number, 9),
    ]
    svg = draw(_figure(series, kind=kind, baseline=1.0))
    assert len(_charts(svg)) == 2
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_bin_without_data_says_so() -> None:
    svg = draw(_figure([Series("a", [0.5, None], [0.4, None], [0.6, None])]))
    assert _texts(svg).count(NO_DATA) == 2  # wide and narrow


def test_a_gap_is_not_bridged_by_a_line() -> None:
    nothing: list[float | None] = [None] * 4
    svg = draw(_figure([Series("a", [0.5, 0.6, None, 0.7], nothing, nothing)]))
    lines = [line.get("points", "") for line in _charts(svg)[0].iter("polyline")]
    assert [len(points.split()) for points in lines] == [2]


def test_names_beside_lines_do_not_touch() -> None:
    series = [Series(name, [0.5], [None], [None], n) for n, name in enumerate("abcd")]
    wide = _charts(draw(_figure(series)))[0]
    heights = sorted(float(t.get("y", "0")) for t in wide.iter("text") if t.text in list("abcd"))
    assert all(b - a >= 14 for a, b in pairwise(heights))


def test_intervals_reach_from_low_to_high() -> None:
    svg = draw(_figure([Series("a", [5.0], [0.0], [10.0])]))
    [bar] = [x for x in _charts(svg)[0].iter("line") if "bar" in x.get("class", "")]
    grid = [
        float(x.get("y1", "0")) for x in _charts(svg)[0].iter("line") if "grid" in str(x.attrib)
    ]
    assert math.isclose(float(bar.get("y1", "0")), max(grid), abs_tol=0.2)
    assert math.isclose(float(bar.get("y2", "0")), min(grid), abs_tol=0.2)


@pytest.mark.parametrize("points", [[(10.0, 3.0)], [(1.0, 2.0), (2.0, 2.0)], [(0.0, 1.0)]])
def test_short_and_flat_curves_are_drawn(points: list[tuple[float, float]]) -> None:
    svg = draw_curves([Curve("a", 0, points)], "updates", "BLEU", "title")
    marks = [g for g in _charts(svg)[0].iter("g") if "mark" in g.get("class", "")]
    assert len(marks) == len(points)
    assert "nan" not in svg


def test_curves_without_points_are_no_chart() -> None:
    assert draw_curves([Curve("a", 0, [])], "updates", "BLEU", "title") == ""
