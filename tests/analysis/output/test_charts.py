"""Charts of the page: what they must never draw."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.analysis.figures.results import NO_DATA, Cell, CurveTable, Figure, Series
from jtrans.analysis.output.charts import draw, draw_curves
from jtrans.analysis.output.labels import text_width
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


def _curves(points: list[tuple[float, float]]) -> CurveTable:
    rows: list[list[Cell]] = [["a", "a", *point] for point in points]
    return CurveTable("c", "title", ["system", "run", "updates", "BLEU"], rows, indices={"a": 0})


def _charts(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(f"<all>{svg}</all>"))


def _texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for chart in _charts(svg) for element in chart.iter("text")]


@given(numbers, numbers)
def test_ticks_are_few_round_numbers_around_the_data(one: float, other: float) -> None:
    low, high = sorted((one, other))
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 9
    slack = 1e-6 * (1 + abs(low) + abs(high))
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    assert all(a < b for a, b in pairwise(marks))


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
    svg = draw_curves(_curves(points))
    marks = [g for g in _charts(svg)[0].iter("g") if "mark" in g.get("class", "")]
    assert len(marks) == len(points)
    assert "nan" not in svg


def _marks(svg: str) -> list[str]:
    return [g.get("class", "") for g in _charts(svg)[0].iter("g") if "mark" in g.get("class", "")]


def test_bins_with_few_items_are_hollow_and_the_axis_says_so() -> None:
    series = [Series("a", [0.5, 0.6], [None] * 2, [None] * 2)]
    svg = draw(_figure(series, counts=[19, 20], count_label="words"))
    assert _marks(svg) == ["mark hollow s0", "mark s0"]
    assert "fewer than 20 words" in " ".join(_texts(svg))
    assert "hollow" not in draw(_figure(series, counts=[20, 20]))


def test_shares_of_few_items_are_hollow_and_their_number_stands_below() -> None:
    series = [Series("a", [0.5, 0.5], [None] * 2, [None] * 2)]
    svg = draw(_figure(series, counts=[], total=3, count_label="sentences"))
    assert _marks(svg) == ["mark hollow s0"] * 2
    assert "n = 3 sentences; hollow: fewer than 20 sentences" in " ".join(_texts(svg))


def test_neighbouring_bins_without_data_say_so_once() -> None:
    nothing: list[float | None] = [None] * 20
    svg = draw(_figure([Series("a", [0.5, *nothing[:18], 0.5], nothing, nothing)]))
    assert _texts(svg).count(NO_DATA) == 2  # wide and narrow


@pytest.mark.parametrize("number", [1, 5, 12, 30, 90])
@pytest.mark.parametrize(
    "label", ["{}", "{}0–{}9", "the {}th part of a sentence", "字{}字字字字字"]
)
def test_labels_of_many_or_long_bins_do_not_touch(number: int, label: str) -> None:
    nothing: list[float | None] = [None] * number
    bins = [label.replace("{}", str(place)) for place in range(number)]
    series = [Series("a", [0.5] * number, nothing, nothing)]
    svg = draw(_figure(series, bins=bins, counts=[123_456] * number, x_label="word " * 30))
    for chart in _charts(svg):
        boxes = [_box(text) for text in chart.iter("text")]
        edge = float(chart.get("viewBox", "").split()[2])
        assert all(left >= -1 and right <= edge + 1 for left, _, right, _ in boxes)
        assert not any(_meet(a, b) for a, b in combinations(boxes, 2))


def test_labels_that_fit_only_in_small_letters_stay_upright() -> None:
    """Those of the frequency figure, beside names as long as those of seeds."""
    bins = ["0", "1", "2", "3", "4", "5–9", "10–99", "100–999", "1,000+"]
    series = [Series("bpe-dropout (seeds 1, 2)", [0.5] * 9, [None] * 9, [None] * 9)]
    wide = _charts(draw(_figure(series, bins=bins, counts=[4_145] * 9)))[0]
    assert not [text for text in wide.iter("text") if text.get("transform")]


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_names_stand_beside_the_last_points_and_clear_of_empty_bins(value: float) -> None:
    values = [value, value, None, None, None]
    series = [Series(name, values, [None] * 5, [None] * 5, n) for n, name in enumerate("abc" * 5)]
    wide = _charts(draw(_figure(series)))[0]
    texts = list(wide.iter("text"))
    names = [text for text in texts if "name" in text.get("class", "")]
    [empty] = [text for text in texts if text.text == NO_DATA]
    assert len(names) == 15
    assert all(_box(name)[0] < _box(empty)[0] for name in names)
    assert not any(_meet(_box(a), _box(b)) for a, b in combinations([*names, empty], 2))


def _box(text: ET.Element) -> tuple[float, float, float, float]:
    """Return the edges of a text: left, top, right, bottom."""
    x, y = float(text.get("x", "0")), float(text.get("y", "0"))
    kind = text.get("class", "")
    width = text_width(text.text or "", 10.5 if "small" in kind else 12, is_bold="name" in kind)
    before = {"start": 0.0, "middle": width / 2, "end": width}[text.get("text-anchor", "start")]
    if text.get("transform"):  # read upwards
        return x - 9, y - width + before, x + 2, y + before
    return x - before, y - 9, x - before + width, y + 2


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return min(a[2], b[2]) - max(a[0], b[0]) > 0.1 and min(a[3], b[3]) - max(a[1], b[1]) > 0.1


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_long_names_stay_inside_and_apart(kind: str) -> None:
    names = ["W" * 300, *(f"a-long-shared-beginning-of-names-{n}-and-end" for n in "abcde"), "نظام"]
    size = 1 if kind == "bars" else 2
    series = [
        Series(name, [0.5] * size, [None] * size, [None] * size, n) for n, name in enumerate(names)
    ]
    svg = draw(_figure(series, kind=kind))
    wide = _charts(svg)[0]
    shown = [text for text in wide.iter("text") if "name" in text.get("class", "")]
    assert len({text.text for text in shown}) == len(names)
    assert all(_box(text)[0] >= 0 and _box(text)[2] <= 680 for text in shown)
    assert f"\u2068{names[1]}\u2069" in svg  # in full where one points at a mark


def test_large_numbers_of_updates_do_not_touch() -> None:
    points = [(float(update), update / 1e6) for update in range(0, 1_000_001, 50_000)]
    svg = draw_curves(_curves(points))
    for chart in _charts(svg):
        assert not any(_meet(a, b) for a, b in combinations(map(_box, chart.iter("text")), 2))
