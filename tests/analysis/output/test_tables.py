"""Tables as text to read."""

from __future__ import annotations

import csv
import io

import numpy as np

from jtrans.analysis.attention.views import Matrix, View
from jtrans.analysis.figures.results import Figure, Series, Table, as_table
from jtrans.analysis.output.tables import shown_table, to_csv, weights_csv


def test_scores_have_the_digits_of_papers_and_files_all() -> None:
    columns = ["BLEU baseline", "TER ±", "difference", "share"]
    table = Table("compare", "title", columns, [[93.9812, 3.738, -0.859, 0.6667]])
    assert shown_table(table)[1] == [["94.0", "3.7", "-0.9", "0.667"]]
    assert to_csv(table).splitlines()[1] == "93.9812,3.738,-0.859,0.6667"


def test_a_row_of_a_figure_has_values_with_their_intervals_and_spreads() -> None:
    series = Series("a", [2.0], [1.0], [4.0], spread=[0.5])
    table = as_table(Figure("name", "title", "question?", "length", "y", ["1–9"], [7], [series]))
    assert table.columns == ["length", "items", "a", "a low", "a high", "a seeds ±"]
    assert table.rows == [["1–9", 7, 2.0, 1.0, 4.0, 0.5]]


def test_a_weight_stands_beside_its_row_and_its_column() -> None:
    weights = np.array([[0.75, 0.25, 0.0], [0.5, 0.125, 0.375]], dtype=np.float32)
    matrix = Matrix("decoder.0.cross", 1, 2, ["x", "y"], ["a", "b", "c"], weights)
    lines = weights_csv(View("decoder.cross", "title", "row", "column", [matrix])).splitlines()
    assert len(lines) == 1 + 6 and lines[6] == "decoder.0.cross,1,2,2,y,3,c,0.375000"


def test_a_cell_with_a_carriage_return_does_not_end_its_row() -> None:
    rows: list[list[str | float | int | None]] = [["a\rb", 'say "c"\r'], ["d", None]]
    written = to_csv(Table("a", "b", ["x", "y"], rows))
    assert "\r\n" not in written
    with io.StringIO(written, newline="") as stream:
        assert list(csv.reader(stream)) == [["x", "y"], ["a\rb", 'say "c"\r'], ["d", ""]]


def test_p_at_the_floor_of_the_resampling_is_a_bound() -> None:
    rows: list[list[str | float | int | None]] = [["a", 1 / 1001, 1 / 1001], ["b", 0.0412, None]]
    table = Table("compare", "title", ["system", "p", "share"], rows)
    assert shown_table(table)[1] == [["a", "<= 0.001", "0.001"], ["b", "0.041", "no data"]]
    assert to_csv(table).splitlines()[1].startswith("a,0.000999")  # files have the number
