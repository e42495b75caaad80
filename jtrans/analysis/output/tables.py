"""Figures and tables as readable text and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from jtrans.analysis.attention.views import View
from jtrans.analysis.figures.results import NO_DATA, Cell, Figure, Series, Table
from jtrans.evaluation.bootstrap import SAMPLES
from jtrans.evaluation.significance import p_text

DIGITS = 3
SCORE = re.compile(
    r"^(BLEU|chrF2?|TER|multi-bleu|matches)\b|^(difference|training minutes|tokens/s)$"
)
SCORE_DIGITS = 1
WEIGHT_COLUMNS = ("map", "layer", "head", "row", "row_token", "column", "column_token", "weight")


def shown_table(item: Figure | Table) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of readable text; a figure has a column per system."""
    if isinstance(item, Table):
        rows = [
            [_shown_in(column, cell) for column, cell in zip(item.columns, row, strict=True)]
            for row in item.rows
        ]
        return item.columns, rows
    columns = [item.x_label, *([item.count_label] if item.counts else [])]
    counts = [[f"{count:,}"] for count in item.counts] or [[]] * len(item.bins)
    rows = [
        [label, *count, *(shown_value(item, series, place) for series in item.series)]
        for place, (label, count) in enumerate(zip(item.bins, counts, strict=True))
    ]
    return [*columns, *(series.system for series in item.series)], rows


def shown(cell: Cell, digits: int = DIGITS) -> str:
    """Return a cell as readable text."""
    if cell is None:
        return NO_DATA
    if isinstance(cell, float):
        return f"{cell:.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _shown_in(column: str, cell: Cell) -> str:
    """Return a cell of a table; the lowest p-value that resampling gives is shown as a bound."""
    if column == "p" and isinstance(cell, float):
        return p_text(cell, SAMPLES).removeprefix("p ").removeprefix("= ")
    return shown(cell, SCORE_DIGITS if SCORE.search(column) else DIGITS)


def shown_value(figure: Figure, series: Series, place: int) -> str:
    """Return a value of a figure as readable text, with its interval and the spread of seeds."""
    low, high = series.low[place], series.high[place]
    text = shown(series.values[place], figure.digits)
    if low is not None and high is not None:
        text += f" [{shown(low, figure.digits)}, {shown(high, figure.digits)}]"
    if series.spread and series.spread[place] is not None:
        text += f" seeds ±{shown(series.spread[place], figure.digits)}"
    return text


def numeric_columns(item: Figure | Table) -> list[bool]:
    """Return whether each column of `shown_table` holds numbers, not text such as "12"."""
    if isinstance(item, Figure):
        return [False, *([True] if item.counts else []), *(True for _ in item.series)]
    return [
        all(cell is None or isinstance(cell, int | float) for cell in (row[n] for row in item.rows))
        for n in range(len(item.columns))
    ]


def to_csv(table: Table) -> str:
    """Return a table as CSV with unrounded numbers; an empty cell means "no data"."""
    return _csv(table.columns, table.rows)


def weights_csv(view: View) -> str:
    """Return every weight of a view on a line of its own; positions are counted from 1."""
    rows = []
    for matrix in view.matrices:
        head = "mean" if matrix.head is None else matrix.head
        for r, row in enumerate(matrix.values.tolist()):
            for c, weight in enumerate(row):
                place = [r + 1, matrix.rows[r], c + 1, matrix.columns[c]]
                rows.append([matrix.map, matrix.layer, head, *place, f"{weight:.6f}"])
    return _csv(WEIGHT_COLUMNS, rows)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)  # whose line ends make it quote a carriage return in a cell
    writer.writerow(columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue().replace("\r\n", "\n")
