"""Figures as small SVG for a page: text stays text, colours come from the page's style sheet.

Every chart is drawn twice, wide with the names beside the lines and narrow for a phone, where a
wide one would be scaled until it is unreadable; the style sheet shows one of them.

Classes: ``s0``, ``s1``, ... the colours of `scales`; ``grid``, ``axis``, ``quiet`` grey elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from jtrans.analysis.figures.results import NO_DATA, Figure, Series
from jtrans.analysis.output.scales import COLOURS, apart, extremes, tick_labels, ticks
from jtrans.analysis.output.tables import shown, shown_value

Point = tuple[float, float]
Scale = Callable[[float], float]  # where a value lies, in px
LETTER = 6.4  # px a letter takes at 12 px
BOLD = 7.6  # px a letter of a name takes
ROW = 30  # px of one system in a dot plot
DODGE = 5  # px between the points of two systems in one bin
NAME_GAP = 15  # px between two names, at least
NARROW, WIDE = 340, 680  # px


@dataclass(frozen=True)
class Curve:
    """One line over numbers: (x, y) points of one system."""

    system: str
    index: int
    points: list[Point]


@dataclass
class _Canvas:
    """SVG under construction, with the edges of its plot area."""

    is_narrow: bool
    height: float
    left: float
    right: float
    top: float
    base: float
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(
            f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def path(self, points: Sequence[Point], kind: str) -> None:
        if len(points) > 1:
            steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline class="curve {kind}" points="{steps}"/>')

    def mark(self, x: float, y: float, index: int, label: str) -> None:
        """Draw a point; its shape distinguishes systems without colour."""
        self.parts.append(
            f'<g class="mark {_colour(index)}" transform="translate({x:.1f} {y:.1f})">'
            f"<title>{escape(label)}</title>{_SHAPES[index % len(_SHAPES)]}</g>"
        )

    def svg(self, title: str) -> str:
        kind, width = ("narrow", NARROW) if self.is_narrow else ("wide", WIDE)
        return (
            f'<svg class="chart {kind}" viewBox="0 0 {width} {self.height:.0f}" '
            f'role="img" aria-label="{escape(title, quote=True)}">{"".join(self.parts)}</svg>'
        )


_SHAPES = (
    '<circle r="3.6"/>',
    '<rect x="-3.2" y="-3.2" width="6.4" height="6.4"/>',
    '<path d="M0-4.4 4.2 3.2-4.2 3.2Z"/>',
    '<path d="M0-4.6 4.6 0 0 4.6-4.6 0Z"/>',
)


def _colour(index: int) -> str:
    return f"s{index % len(COLOURS)}"


def draw(figure: Figure) -> str:
    """Return a figure as SVG, wide and narrow."""
    plot = _dots if figure.kind == "bars" else _bins
    return plot(figure, False) + plot(figure, True)


def draw_curves(curves: Sequence[Curve], x_label: str, y_label: str, title: str) -> str:
    """Return lines over numbers as SVG, wide and narrow; empty without any point."""
    if not any(curve.points for curve in curves):
        return ""
    return "".join(_curves(curves, x_label, y_label, title, narrow) for narrow in (False, True))


def _bins(figure: Figure, narrow: bool) -> str:
    """Draw a line per system over ordered bins, with intervals and items per bin."""
    canvas = _canvas(figure.series, narrow, below=52)
    slot = (canvas.right - canvas.left) / len(figure.bins)
    if any(_is_wide(label, slot) for label in figure.bins):
        canvas.height += 13
    y = _vertical(canvas, extremes(figure), figure.y_label)
    centre = [canvas.left + slot * (place + 0.5) for place in range(len(figure.bins))]
    if figure.baseline is not None:
        height = y(figure.baseline)
        canvas.line(canvas.left, height, canvas.right, height, "baseline")
    for x, label, count in zip(centre, figure.bins, figure.counts, strict=True):
        _bin_label(canvas, x, label, count, slot)
    for place in figure.empty_bins:
        canvas.text(centre[place], (canvas.top + canvas.base) / 2, NO_DATA, "empty", "middle")
    label = f"{figure.x_label}; n: number of {figure.count_label}"
    canvas.text((canvas.left + canvas.right) / 2, canvas.height - 5, label, "axis", "middle")
    shift = (len(figure.series) - 1) / 2
    ends = []
    for order, series in enumerate(figure.series):
        xs = [x + (order - shift) * DODGE for x in centre]
        ends.append(_series(canvas, figure, series, xs, y))
    _name_ends(canvas, figure.series, ends)
    return canvas.svg(figure.title)


def _series(
    canvas: _Canvas, figure: Figure, series: Series, xs: Sequence[float], y: Scale
) -> float | None:
    """Draw one system; return the height at which its line ends."""
    kind = _colour(series.index)
    points = [
        None if value is None else (x, y(value)) for x, value in zip(xs, series.values, strict=True)
    ]
    for has_values, group in itertools.groupby(points, key=lambda point: point is not None):
        if has_values:  # a bin without data interrupts the line
            canvas.path([point for point in group if point is not None], kind)
    end = None
    for place, point in enumerate(points):
        if point is None:
            continue
        low, high = series.low[place], series.high[place]
        if low is not None and high is not None:
            canvas.line(xs[place], y(low), xs[place], y(high), f"bar {kind}")
        value = shown_value(figure, series, place)
        canvas.mark(*point, series.index, f"{series.system}, {figure.bins[place]}: {value}")
        end = point[1]
    return end


def _dots(figure: Figure, narrow: bool) -> str:
    """Draw one number per system as a point on its own row, with its interval."""
    beside = 12.0 if narrow else 22 + BOLD * max(len(series.system) for series in figure.series)
    row = ROW + (16 if narrow else 0)
    base = 8 + row * len(figure.series)
    canvas = _Canvas(narrow, base + 42, beside, (NARROW if narrow else WIDE) - 110, 8, base)
    x = _horizontal(canvas, extremes(figure), figure.y_label, below=16, has_grid=True)
    if figure.baseline is not None:
        canvas.line(x(figure.baseline), canvas.top, x(figure.baseline), base, "baseline")
    for order, series in enumerate(figure.series):
        height = canvas.top + row * (order + 0.5) + (8 if narrow else 0)
        kind = _colour(series.index)
        if narrow:
            canvas.text(4, height - 14, series.system, f"name {kind}")
        else:
            canvas.text(beside - 12, height + 4, series.system, f"name {kind}", "end")
        value, least, most = series.values[0], series.low[0], series.high[0]
        if least is not None and most is not None:
            canvas.line(x(least), height, x(most), height, f"bar {kind}")
        if value is not None:
            canvas.mark(x(value), height, series.index, shown_value(figure, series, 0))
        canvas.text(canvas.right + 12, height + 4, shown(value, figure.digits))
    return canvas.svg(figure.title)


def _curves(curves: Sequence[Curve], x_label: str, y_label: str, title: str, narrow: bool) -> str:
    canvas = _canvas(curves, narrow, below=42)
    updates, values = zip(*(point for curve in curves for point in curve.points), strict=True)
    y = _vertical(canvas, (min(values), max(values)), y_label)
    x = _horizontal(canvas, (0.0, max(updates)), x_label, below=17)
    ends = []
    for curve in curves:
        points = [(x(update), y(value)) for update, value in curve.points]
        canvas.path(points, _colour(curve.index))
        for point, (update, value) in zip(points, curve.points, strict=True):
            label = f"{curve.system}, {x_label} {update:,.0f}: {value:.2f}"
            canvas.mark(*point, curve.index, label)
        ends.append(points[-1][1] if points else None)
    _name_ends(canvas, curves, ends)
    return canvas.svg(title)


def _canvas(systems: Sequence[Series | Curve], narrow: bool, below: float) -> _Canvas:
    """Return a canvas with room for the names beside a wide plot, and `below` px under it."""
    if narrow:
        return _Canvas(narrow, 190 + below, 44, NARROW - 16, 26, 190)
    beside = min(220.0, 20 + BOLD * max(len(system.system) for system in systems))
    return _Canvas(narrow, 230 + below, 52, WIDE - beside, 26, 230)


def _horizontal(
    canvas: _Canvas, ends: tuple[float, float], label: str, *, below: float, has_grid: bool = False
) -> Scale:
    """Draw an x axis of numbers, `below` px under the plot; return where a value lies."""
    marks = ticks(*ends, 4 if canvas.is_narrow else 6)
    scale = (canvas.right - canvas.left) / (marks[-1] - marks[0])

    def x(value: float) -> float:
        return canvas.left + (value - marks[0]) * scale

    for mark, text in zip(marks, tick_labels(marks), strict=True):
        if has_grid:
            canvas.line(x(mark), canvas.top, x(mark), canvas.base, "grid")
        canvas.text(x(mark), canvas.base + below, text, "quiet", "middle")
    middle = (canvas.left + canvas.right) / 2
    canvas.text(middle, canvas.base + below + 18, label, "axis", "middle")
    return x


def _vertical(canvas: _Canvas, ends: tuple[float, float], label: str) -> Scale:
    """Draw the y axis; return where a value lies."""
    marks = ticks(*ends)
    scale = (canvas.base - canvas.top) / (marks[-1] - marks[0])

    def y(value: float) -> float:
        return canvas.base - (value - marks[0]) * scale

    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(canvas.left, y(mark), canvas.right, y(mark), "grid")
        canvas.text(canvas.left - 6, y(mark) + 4, text, "quiet", "end")
    canvas.text(2, 13, label, "axis")
    return y


def _bin_label(canvas: _Canvas, x: float, label: str, count: int, slot: float) -> None:
    """Write a bin's label, on two lines where it is too wide, and its number of items."""
    lines = [label]
    if _is_wide(label, slot):
        first, mark, last = label.partition("–" if "–" in label else " ")
        lines = [f"{first}{mark}".strip(), last]
    for number, text in enumerate(lines):
        canvas.text(x, canvas.base + 15 + 13 * number, text, "", "middle")
    text = f"n {count:,}" if slot > LETTER * (len(f"{count:,}") + 3) else f"{count:,}"
    canvas.text(x, canvas.base + 15 + 13 * len(lines), text, "small quiet", "middle")


def _is_wide(label: str, slot: float) -> bool:
    return len(label) * LETTER > slot and ("–" in label or " " in label)


def _name_ends(
    canvas: _Canvas, systems: Sequence[Series | Curve], ends: Sequence[float | None]
) -> None:
    """Write the names beside the ends of lines, if wide, moved apart where they would touch."""
    if canvas.is_narrow:
        return
    placed = sorted((end, order) for order, end in enumerate(ends) if end is not None)
    heights = apart([end for end, _ in placed], NAME_GAP, canvas.top, canvas.base)
    for height, (_, order) in zip(heights, placed, strict=True):
        system = systems[order]
        canvas.text(canvas.right + 8, height + 4, system.system, f"name {_colour(system.index)}")
