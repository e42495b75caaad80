"""Tables as text to read."""

from __future__ import annotations

import csv
import io

from jtrans.analysis.figures.results import Table
from jtrans.analysis.output.tables import shown_table, to_csv


def test_scores_have_the_digits_of_papers_and_files_all() -> None:
    columns = ["BLEU baseline", "TER ±", "difference", "share"]
    table = Table("compare", "title", columns, [[93.9812, 3.738, -0.859, 0.6667]])
    assert shown_table(table)[1] == [["94.0", "3.7", "-0.9", "0.667"]]
    assert to_csv(table).splitlines()[1] == "93.9812,3.738,-0.859,0.6667"


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
