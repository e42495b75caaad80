"""Figures drawn, and figures and tables as files."""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest

from jtrans.analysis.figures.results import CurveTable, Figure, Series, Table, as_json, as_table
from jtrans.analysis.output.charts import draw as svg_of
from jtrans.analysis.output.files import write_results
from jtrans.analysis.output.plots import MARKERS, draw, draw_curves
from jtrans.analysis.output.scales import COLOURS, apart, colour, text_colour
from jtrans.analysis.output.tables import numeric_columns, shown_table, to_csv

FIGURE = Figure(
    name="made-up",
    title="Made up",
    question="What is it?",
    x_label="x",
    y_label="y",
    bins=["0–9", "10–19", "20+"],
    counts=[1200, 3, 0],
    series=[
        Series("one", [0.5, 0.25, None], [0.4, None, None], [0.6, None, None], 0),
        Series("two", [0.5, 0.2, None], [0.1, 0.1, None], [0.7, 0.3, None], 1, [0.1, None, None]),
    ],
)
BARS = replace(
    FIGURE,
    name="bars",
    kind="bars",
    bins=["test"],
    counts=[7],
    baseline=1.0,
    series=[Series("one", [0.9], [0.8], [1.0], 0), Series("two", [None], [None], [None], 1)],
)


@pytest.mark.parametrize("figure", [FIGURE, BARS], ids=["line", "bars"])
def test_a_figure_becomes_svg_png_and_pdf(tmp_path: Path, figure: Figure) -> None:
    svg, png, pdf = draw(figure, tmp_path / "a")
    text = svg.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    for series in figure.series:
        inks = colour(series.index), text_colour(series.index)  # of marks and names
        assert any(ink.lower() in text for ink in inks)
    assert "nan" not in text
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"/BaseFont" not in pdf.read_bytes()  # letters are outlines
    assert png.read_bytes().startswith(b"\x89PNG")


def test_curves_of_the_seeds_of_a_system_share_its_name_and_colour(tmp_path: Path) -> None:
    rows: list[list[str | float | int | None]] = [
        [system, run, update, update / 7]
        for system, run in (("one", "s1"), ("one", "s2"), ("two", "two"))
        for update in (10, 20)
    ]
    columns = ["system", "run", "updates", "loss"]
    item = CurveTable("c", "Loss by update", columns, rows, indices={"one": 0, "two": 1})
    assert [(curve.system, curve.index) for curve in item.curves] == [
        ("one", 0),
        ("", 0),
        ("two", 1),
    ]
    svg, png, _ = draw_curves(item, tmp_path / "a")
    text = svg.read_text(encoding="utf-8")
    assert (text.count("<!-- one -->"), text.count("<!-- two -->")) == (1, 1)
    assert colour(0).lower() in text and colour(1).lower() in text
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("systems", [1, 2, 6])
def test_names_at_the_ends_of_lines_do_not_lie_on_the_axes(tmp_path: Path, systems: int) -> None:
    series = [replace(FIGURE.series[0], system=f"number {i}", index=i) for i in range(systems)]
    text = draw(replace(FIGURE, series=series), tmp_path / "a")[0].read_text(encoding="utf-8")
    area = re.search(r'<g id="patch_2">\s*<path d="M ([\d.]+) [\d.]+ \s*L ([\d.]+) ', text)
    assert area is not None
    names = re.findall(r"<!-- number \d -->\s*<g [^>]*translate\(([\d.]+) ", text)
    assert len(names) == systems
    assert min(map(float, names)) > float(area[2]) > float(area[1])


def test_many_systems_stay_in_their_bins_and_have_names_apart(tmp_path: Path) -> None:
    series = [replace(FIGURE.series[0], system=f"number {i}", index=i) for i in range(20)]
    text = draw(replace(FIGURE, series=series), tmp_path / "a")[0].read_text(encoding="utf-8")
    area = re.search(r'<g id="patch_2">\s*<path d="M ([\d.]+) ', text)
    assert area is not None
    assert min(map(float, re.findall(r'<use [^>]*x="([\d.]+)"', text))) >= float(area[1])
    names = re.findall(r"<!-- number \d+ -->\s*<g [^>]*translate\([\d.]+ ([\d.]+)\)", text)
    heights = sorted(map(float, names))
    assert len(heights) == 20
    assert min(b - a for a, b in itertools.pairwise(heights)) > 9.0  # points


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(FIGURE, tmp_path / name)
    for ending in ("svg", "pdf"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
        assert first == second


def test_a_figure_without_common_counts_shows_none(tmp_path: Path) -> None:
    series = [replace(line, values=[0.5, 0.25, 0.25]) for line in FIGURE.series]
    figure = replace(FIGURE, counts=[], series=series, count_label="words")
    columns, rows = shown_table(figure)
    assert columns == ["x", "one", "two"]
    assert [len(row) for row in rows] == [3] * 3 and numeric_columns(figure) == [False, True, True]
    assert to_csv(as_table(figure)).splitlines()[0].startswith("x,one,one low")
    text = draw(figure, tmp_path / "a")[0].read_text(encoding="utf-8")
    assert "<!-- 10–19 -->" in text and "<!-- x -->" in text and "words" not in text
    assert "hollow" not in svg_of(figure) and "words" not in svg_of(figure)
    text = draw(replace(figure, total=3), tmp_path / "b")[0].read_text(encoding="utf-8")
    assert "<!-- x; n = 3 words; hollow: fewer than 20 words -->" in text


def test_a_figure_without_any_data_is_drawn(tmp_path: Path) -> None:
    nothing: list[float | None] = [None] * 3
    empty = replace(FIGURE, series=[Series("one", nothing, nothing, nothing)], counts=[0, 0, 0])
    draw(empty, tmp_path / "a")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_colours_repeat_only_after_all_were_used() -> None:
    assert len({colour(i) for i in range(len(COLOURS))}) == len(COLOURS)
    assert colour(len(COLOURS)) == colour(0)


def test_a_system_of_a_colour_that_repeats_has_another_marker() -> None:
    marks = {(colour(i), MARKERS[i % len(MARKERS)]) for i in range(2 * len(COLOURS))}
    assert len(marks) == 2 * len(COLOURS)


def test_labels_are_moved_apart_and_keep_their_order() -> None:
    placed = apart([0.5, 0.5, 0.51], 0.1, 0, 1)
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(placed))
    top = apart([0.98, 0.99, 1.0], 0.1, 0, 1)
    assert top[-1] <= 1.0
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(top))


def test_figures_and_tables_are_plain_json() -> None:
    table = Table("t", "T", ["a", "b"], [["x", None], [1, 0.5]])
    for item, kind in ((FIGURE, "figure"), (table, "table")):
        content = json.loads(json.dumps(as_json(item), allow_nan=False))
        assert content == as_json(item)
        assert content["type"] == kind


def test_csv_has_the_numbers_in_full_and_nothing_for_no_data() -> None:
    table = Table("t", "T", ["a", "b,c"], [["x, y", None], [1, 1 / 3]])
    rows = list(csv.reader(to_csv(table).splitlines()))
    assert rows == [["a", "b,c"], ["x, y", ""], ["1", str(1 / 3)]]


def test_the_table_to_read_shows_intervals_and_no_data() -> None:
    columns, rows = shown_table(FIGURE)
    assert columns == ["x", "items", "one", "two"]
    assert rows == [
        ["0–9", "1,200", "0.500 [0.400, 0.600]", "0.500 [0.100, 0.700] seeds ±0.100"],
        ["10–19", "3", "0.250", "0.200 [0.100, 0.300]"],
        ["20+", "0", "no data", "no data"],
    ]


def test_files_are_written_for_every_item(tmp_path: Path) -> None:
    table = Table("t", "T", ["a"], [["x"]])
    files = write_results([FIGURE, table], tmp_path / "new", prefix="test.")
    names = sorted(path.name for path in files)
    endings = ["csv", "json", "pdf", "png", "svg", "tex"]
    expected = [f"test.made-up.{ending}" for ending in endings]
    expected += ["test.t.csv", "test.t.json", "test.t.tex"]
    assert names == expected == sorted(path.name for path in (tmp_path / "new").iterdir())
    header, *_ = csv.reader((tmp_path / "new/test.made-up.csv").read_text("utf-8").splitlines())
    assert header[:5] == ["x", "items", "one", "one low", "one high"]
    assert header[-1] == "two seeds ±"
    latex = (tmp_path / "new/test.made-up.tex").read_text("utf-8")
    assert r"0--9 & 1,200 & 0.500 [0.400, 0.600] & 0.500 [0.100, 0.700] seeds $\pm$0.100" in latex


def test_numbers_beside_marks_have_room_before_the_next_system(tmp_path: Path) -> None:
    widths = []
    for count in (2, 12):
        series = [Series(f"s{i}", [0.9], [0.8], [1.0], i) for i in range(count)]
        svg, *_ = draw(replace(BARS, series=series), tmp_path / "a")
        root = ElementTree.fromstring(svg.read_text("utf-8"))
        widths.append(float(root.attrib["width"].removesuffix("pt")))
    assert widths[0] == pytest.approx(5.2 * 72) and widths[1] >= 12 * 60


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["line", "bars"])
def test_many_bins_and_long_names_in_any_script_are_drawn_without_a_warning(
    tmp_path: Path, kind: Literal["line", "bars"]
) -> None:
    names = ["W" * 300, "نظام عربي", "系统名称" * 20, "🎉", "a-long-name-1", "a-long-name-2"]
    number = 1 if kind == "bars" else 50
    nothing: list[float | None] = [None] * number
    series = [
        Series(name, [0.5] * number, nothing, nothing, index) for index, name in enumerate(names)
    ]
    bins = [f"{place}000–{place}999" for place in range(number)]
    counts = [3] * number
    draw(replace(FIGURE, kind=kind, bins=bins, counts=counts, series=series), tmp_path / "a")
    assert (tmp_path / "a.png").stat().st_size > 1000
