"""Figures and tables as files: CSV and JSON for both, SVG and PNG for figures."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.analysis.figures.figure import NO_DATA, Cell, Figure, Table, as_json, as_table
from jtrans.analysis.output.plots import draw
from jtrans.files import write_json, write_text

if TYPE_CHECKING:
    from jtrans.analysis.attention.alignment import LayerAlignment

DIGITS = 3


def write_items(items: Sequence[Figure | Table], folder: Path, *, prefix: str = "") -> list[Path]:
    """Write figures and tables into a folder.

    Args:
        items: what to write.
        folder: is made when it is not there.
        prefix: before the name of every file, such as ``test.``.

    Returns:
        The files written.
    """
    files = []
    for item in items:
        base = folder / f"{prefix}{item.name}"
        table = as_table(item) if isinstance(item, Figure) else item
        write_text(_with(base, "csv"), to_csv(table))
        write_json(_with(base, "json"), as_json(item))
        files += [_with(base, "csv"), _with(base, "json")]
        if isinstance(item, Figure):
            draw(item, _with(base, "svg"), _with(base, "png"))
            files += [_with(base, "svg"), _with(base, "png")]
    return files


def to_csv(table: Table) -> str:
    """Return a table as CSV, numbers in full; an empty cell is "no data"."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue()


def shown_table(item: Figure | Table) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows to read: for a figure a column per system, value and interval."""
    if isinstance(item, Table):
        return item.columns, [[shown(cell) for cell in row] for row in item.rows]
    columns = [item.x_label, item.count_label, *(series.system for series in item.series)]
    rows = []
    for place, label in enumerate(item.bins):
        row = [label, f"{item.counts[place]:,}"]
        row += [_value(item, number, place) for number in range(len(item.series))]
        rows.append(row)
    return columns, rows


def shown(cell: Cell, digits: int = DIGITS) -> str:
    """Return a cell as text to read."""
    if cell is None:
        return NO_DATA
    if isinstance(cell, float):
        return f"{cell:.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def is_numeric(cells: Iterable[str]) -> bool:
    """Whether the cells of a column are numbers, intervals and "no data" only."""
    return all(cell == NO_DATA or re.match(r"[-+±\d]", cell) for cell in cells)


def _value(figure: Figure, number: int, place: int) -> str:
    series, digits = figure.series[number], figure.digits
    low, high = series.low[place], series.high[place]
    text = shown(series.values[place], digits)
    if low is not None and high is not None:
        text += f" [{shown(low, digits)}, {shown(high, digits)}]"
    if series.spread and series.spread[place] is not None:
        text += f" ±{shown(series.spread[place], digits)}"
    return text


def _with(base: Path, ending: str) -> Path:
    return base.with_name(f"{base.name}.{ending}")


def write_links(
    found: Sequence[tuple[str, LayerAlignment]], folder: Path, *, prefix: str = ""
) -> list[Path]:
    """Write word alignments in Pharaoh format, a file per run: name and alignment of each."""
    files = []
    for name, alignment in found:
        path = folder / f"{prefix}{name.replace('/', '-')}.alignments.txt"
        write_text(path, "".join(f"{line}\n" for line in alignment.pharaoh))
        files.append(path)
    return files
