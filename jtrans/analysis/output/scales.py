"""Colours, ticks and label positions shared by the print and page drawings of a figure.

Colours are those of Okabe and Ito, which colour-blind readers can distinguish; a system has the
same colour in every figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jtrans.analysis.figures.results import Figure
from jtrans.errors import how_many

COLOURS = [
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
    "#000000",
]
# variants for text and for the dark page, with a contrast of at least 4.5
TEXT_COLOURS = ["#0072B2", "#C25600", "#008662", "#A36186", "#9C6C00", "#3B7CA1", "#000000"]
DARK_COLOURS = ["#4799C8", "#E18B47", "#47B99A", "#DA9FC0", "#EDBA47", "#85C9EF", "#E9E9EE"]
FLAT = 1e-6  # relative to the values: a smaller range counts as empty
FEW = 20  # items: with fewer, the value of a bin is little more than chance


def colour(index: int) -> str:
    """Return the colour of the system with this index."""
    return COLOURS[index % len(COLOURS)]


def text_colour(index: int) -> str:
    """Return the colour of the name of the system with this index."""
    return TEXT_COLOURS[index % len(TEXT_COLOURS)]


def is_few(figure: Figure, place: int) -> bool:
    """Return whether a value rests on so few items that it is drawn hollow."""
    number = figure.counts[place] if figure.counts else figure.total
    return number is not None and number < FEW


def total_note(figure: Figure) -> str:
    """Return the number of items that the values are shares of, empty if they are none."""
    if figure.total is None:
        return ""
    return f"n = {how_many(figure.total, figure.count_label.removesuffix('s'))}"


def few_note(figure: Figure) -> str:
    """Return the meaning of hollow marks, empty if the figure has none."""
    valued = set(range(len(figure.bins))) - set(figure.empty_bins)
    is_hollow = any(is_few(figure, place) for place in valued)
    return f"hollow: fewer than {FEW} {figure.count_label}" if is_hollow else ""


def empty_runs(figure: Figure) -> list[tuple[int, int]]:
    """Return the first and the last bin of every run of bins without data."""
    runs: list[tuple[int, int]] = []
    for place in figure.empty_bins:
        if runs and runs[-1][1] == place - 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def extremes(figure: Figure) -> tuple[float, float]:
    """Return the ends of a figure's value axis, which all its numbers lie between."""
    values = [
        value
        for series in figure.series
        for value in (*series.values, *series.low, *series.high, figure.baseline)
        if value is not None
    ]
    return widened(min(values), max(values), figure.highest) if values else (0.0, 1.0)


def widened(low: float, high: float, highest: float | None = None) -> tuple[float, float]:
    """Return a range that is not empty, within 0 and the highest possible value."""
    if high - low >= FLAT * max(1.0, abs(low), abs(high)):
        return low, high
    half = abs(low) / 2 if abs(low) > FLAT else 0.5
    least = max(low - half, 0.0) if low >= 0 else low - half
    return least, high + half if highest is None else min(high + half, highest)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return about `most` round numbers, the first at most `low`, the last at least `high`."""
    low, high = widened(low, high)
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def tick_labels(marks: Sequence[float]) -> list[str]:
    """Return ticks as text, all with the same number of digits after the point."""
    texts = [f"{mark:.10g}" for mark in marks]
    digits = max(len(text.partition(".")[2]) for text in texts)
    return [f"{mark:,.{digits}f}" for mark in marks]


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move increasing positions at least `gap` apart, within `low` and `high` if they fit."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap if moved else low))
    limit = high
    for number in reversed(range(len(moved))):
        moved[number] = min(moved[number], limit)
        limit = moved[number] - gap
    return moved
