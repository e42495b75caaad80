"""Tables as a page shows them: narrow, so that the numbers at the right are never cut off.

A column that has the same text in every row becomes a line above the table, and a first column that
repeats its text becomes headings of groups of rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from jtrans.analysis.figures.results import NO_DATA, Figure, Table
from jtrans.analysis.output.labels import short_names, shorten
from jtrans.analysis.output.tables import numeric_columns, shown_table

WORD_LETTERS = 12  # a column with longer cells needs room to break lines
CELL_LETTERS = 80  # longer texts in a table are cut
NOTHING = "–"  # short for "no data"
INTERVAL = re.compile(r" (?=\[|seeds ±)")  # before an interval or the spread of seeds

Row = list[tuple[str, list[str]]]  # values, each with the small texts beside or below it


@dataclass(frozen=True)
class PageTable:
    """A table ready for the template."""

    facts: list[tuple[str, str]]  # heading and text of columns whose rows are all the same
    headings: list[tuple[str, str]]  # each with the kind of its column: number, word or text
    groups: list[tuple[str, list[Row]]]  # a heading, which may be empty, and rows


def page_table(item: Figure | Table) -> PageTable:
    """Arrange a figure's numbers or a table."""
    columns, rows = shown_table(item)
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    numeric = numeric_columns(item)
    constant = [
        len(rows) > 1 and not number and len(set(column)) == 1
        for column, number in zip(cells, numeric, strict=True)
    ]
    places = [place for place in range(len(columns)) if not constant[place]]
    facts = [(columns[place], rows[0][place]) for place in range(len(columns)) if constant[place]]
    groups = [("", rows)]
    if places and not numeric[places[0]] and len(set(cells[places[0]])) < len(rows):
        first = places.pop(0)
        runs = itertools.groupby(rows, key=lambda row: row[first])
        groups = [(f"{columns[first]}: {name}", list(members)) for name, members in runs]
    return PageTable(
        facts,
        [(columns[place], _kind(cells[place], numeric[place])) for place in places],
        [(heading, [_row(row, places, numeric) for row in members]) for heading, members in groups],
    )


def _kind(cells: Sequence[str], is_number: bool) -> str:
    if is_number:
        return "number"
    return "text" if max(map(len, cells)) > WORD_LETTERS else "word"


def _row(row: Sequence[str], places: Sequence[int], numeric: Sequence[bool]) -> Row:
    result = []
    for place in places:
        value, *small = INTERVAL.split(row[place]) if numeric[place] else [row[place]]
        shown = NOTHING if value == NO_DATA else shorten(value, CELL_LETTERS)
        result.append((shown, small))
    return result


class NameMarker:
    """Isolates the names of systems in text, so that a right-to-left name does not reorder it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._short = dict(zip(names, short_names(names), strict=True))
        ordered = sorted(filter(None, names), key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, ordered))})(?!\w)")

    def __call__(self, text: str, *, is_short: bool = False) -> Markup:
        """Return a text as HTML with every name of a system isolated, short if `is_short`."""
        parts = self._names.split(text)
        for place in range(1, len(parts), 2):
            name = self._short[parts[place]] if is_short else parts[place]
            parts[place] = f"<bdi>{escape(name)}</bdi>"
        parts[::2] = [str(escape(part)) for part in parts[::2]]
        return Markup("".join(parts))

    def short(self, text: str) -> Markup:
        """Return a heading with short names."""
        return self(text, is_short=True)

    @property
    def are_cut(self) -> bool:
        """Whether any name is shown shortened."""
        return any(name != short for name, short in self._short.items())
