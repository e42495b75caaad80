"""The results of an analysis: figures and tables as plain numbers.

Nothing is drawn here. Plots, pages, CSV files and ``--json`` all show the numbers of one figure, so
they always agree. Where there is nothing to measure, the value is None ("no data"), never NaN.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NO_DATA = "no data"

Cell = str | float | int | None


@dataclass(frozen=True)
class Series:
    """One system in a figure: one value per bin."""

    system: str
    values: list[float | None]  # None where there is no data
    low: list[float | None]  # lower ends of the 95 % bootstrap intervals
    high: list[float | None]  # upper ends
    index: int = 0  # the system's place among those analysed; decides its colour everywhere
    # sample standard deviation between seeds, None without several seeds
    spread: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """A complete figure: its question, axes and bins, and a series per system."""

    name: str  # of its files, such as ``length-bleu``
    title: str  # a few words
    question: str  # one sentence: the question it answers
    x_label: str
    y_label: str
    bins: list[str]  # labels along x
    counts: list[int]  # items per bin, the same for every system; empty if each has its own
    series: list[Series]  # one per system, in the order given by the user
    note: str = ""  # its definition and weaknesses; may be empty
    # ``line`` for ordered bins, ``points`` for bins without an order, ``bars`` for a single bin
    kind: Literal["line", "points", "bars"] = "line"
    baseline: float | None = None  # a reference value, drawn as a line, such as a length ratio of 1
    digits: int = 3  # after the decimal point, in tables
    count_label: str = "items"  # the unit of `counts` and `total`
    highest: float | None = 1.0  # the highest possible value, None without limit; the lowest is 0
    total: int | None = None  # items of each system, if the values are shares of them

    @property
    def empty_bins(self) -> list[int]:
        """The indices of the bins in which no system has a value."""
        places = range(len(self.bins))
        return [n for n in places if all(series.values[n] is None for series in self.series)]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words that are not a figure."""

    name: str  # of its files, such as ``compare-sentences``
    title: str  # a few words
    columns: list[str]  # their headings
    rows: list[list[Cell]]  # one cell per column; None is "no data"
    note: str = ""  # its definition; may be empty


@dataclass(frozen=True)
class Heatmap(Table):
    """A table of positive and negative numbers that is drawn; its first column holds labels."""

    question: str = ""  # one sentence: the question it answers
    system: str = ""
    part: str = ""  # the stack of the system that has these weights
    column_axis: str = ""
    # the share of every number in the sum of the absolute numbers of its row
    shares: list[list[float | None]] = field(default_factory=list)

    @property
    def values(self) -> list[list[float | None]]:
        """The numbers without the labels; None where there is none."""
        return [
            [None if cell is None else float(cell) for cell in cells] for _, *cells in self.rows
        ]


@dataclass(frozen=True)
class Curve:
    """One line over numbers: (x, y) points of one system."""

    system: str
    index: int
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class CurveTable(Table):
    """A table of points that is drawn as lines; its columns are system, run, x and y."""

    indices: dict[str, int] = field(default_factory=dict)  # places of the systems, by name

    @property
    def curves(self) -> list[Curve]:
        """A line per run; further runs of a system share its colour and have no name."""
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for system, run, x, y in self.rows:
            point = (float(x or 0), float(y or 0))
            lines.setdefault((str(system), str(run)), []).append(point)
        named = dict(reversed(lines))  # by system: its first run
        return [
            Curve(system if run == named[system] else "", self.indices[system], points)
            for (system, run), points in lines.items()
        ]


def as_table(figure: Figure) -> Table:
    """Return the numbers of a figure: one row per bin, value and interval per system."""
    columns = [figure.x_label, *([figure.count_label] if figure.counts else [])]
    for series in figure.series:
        columns += [series.system, f"{series.system} low", f"{series.system} high"]
        columns += [f"{series.system} seeds ±"] if series.spread else []
    rows: list[list[Cell]] = []
    for place, label in enumerate(figure.bins):
        row: list[Cell] = [label, *figure.counts[place : place + 1]]
        for series in figure.series:
            row += [series.values[place], series.low[place], series.high[place]]
            row += [series.spread[place]] if series.spread else []
        rows.append(row)
    return Table(figure.name, figure.title, columns, rows, figure.note)


def as_json(item: Figure | Table) -> dict[str, Any]:
    """Return a figure or table as plain JSON values, with its ``type``."""
    kinds = {Figure: "figure", Table: "table", Heatmap: "heatmap", CurveTable: "curves"}
    return {"type": kinds[type(item)], **asdict(item)}
