"""What an analysis hands over: figures and tables as plain numbers.

Nothing here draws. A figure holds what a plot, a page, a CSV file and ``--json`` all show, so the
four can never disagree. Where there is nothing to measure the value is None ("no data"), never NaN.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NO_DATA = "no data"

Cell = str | float | int | None


@dataclass(frozen=True)
class Series:
    """One system in a figure: one value per bin.

    Args:
        values: None where there is no data.
        low: lower ends of the 95 % bootstrap intervals.
        high: upper ends.
        index: of the system among those analysed; decides its colour everywhere.
        spread: sample standard deviation between seeds, None without several seeds.
    """

    system: str
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]
    index: int = 0
    spread: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """One figure, complete: what it asks, its axes, its bins and a series per system.

    Args:
        name: of its files, such as ``length-bleu``.
        title: a few words.
        question: one sentence, what it shows.
        bins: labels along x.
        counts: items per bin, the same for every system.
        series: one per system, in the order given by the user.
        note: how it is defined and where it is weak; may be empty.
        kind: ``line`` for ordered bins, ``bars`` for a single bin.
        baseline: a value worth a horizontal line, such as a length ratio of 1.
        digits: after the decimal point, in tables.
        count_label: what `counts` counts.
    """

    name: str
    title: str
    question: str
    x_label: str
    y_label: str
    bins: list[str]
    counts: list[int]
    series: list[Series]
    note: str = ""
    kind: Literal["line", "bars"] = "line"
    baseline: float | None = None
    digits: int = 3
    count_label: str = "items"

    @property
    def empty_bins(self) -> list[int]:
        """The places of the bins in which no system has a value."""
        places = range(len(self.bins))
        return [n for n in places if all(series.values[n] is None for series in self.series)]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words that are not a figure.

    Args:
        name: of its files, such as ``compare-sentences``.
        title: a few words.
        columns: their headings.
        rows: one cell per column; None is "no data".
        note: how it is defined; may be empty.
    """

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def as_table(figure: Figure) -> Table:
    """Return the numbers of a figure: one row per bin, value and interval per system."""
    columns = [figure.x_label, figure.count_label]
    for series in figure.series:
        columns += [series.system, f"{series.system} low", f"{series.system} high"]
        columns += [f"{series.system} seeds ±"] if series.spread else []
    rows: list[list[Cell]] = []
    for place, label in enumerate(figure.bins):
        row: list[Cell] = [label, figure.counts[place]]
        for series in figure.series:
            row += [series.values[place], series.low[place], series.high[place]]
            row += [series.spread[place]] if series.spread else []
        rows.append(row)
    return Table(figure.name, figure.title, columns, rows, figure.note)


def as_json(item: Figure | Table) -> dict[str, Any]:
    """Return a figure or table as plain JSON values, with its ``type``."""
    kind = "figure" if isinstance(item, Figure) else "table"
    return {"type": kind, **asdict(item)}
