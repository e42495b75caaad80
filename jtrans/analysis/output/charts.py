"""Figures as small SVG for a page: text stays text, colours come from the page's style sheet.

Every chart is drawn twice, wide with the names beside the lines and narrow for a phone, where a
wide one would be scaled until it is unreadable; the style sheet shows one of them.

Classes: ``s0``, ``s1``, ... the colours of `scales`; ``grid``, ``axis``, ``quiet`` grey elements;
``hollow`` marks of bins with few items. No two labels touch: long labels are cut, broken, written
smaller or turned, and where there are many, only every n-th is written.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from jtrans.analysis.figures.results import NO_DATA, Curve, CurveTable, Figure, Series
from jtrans.analysis.output.labels import fit, fitted_names, isolated, text_width, wrap
from jtrans.analysis.output.scales import (
    COLOURS,
    apart,
    empty_runs,
    extremes,
    few_note,
    is_few,
    tick_labels,
    ticks,
    total_note,
)
from jtrans.analysis.output.tables import shown, shown_value

Point = tuple[float, float]
Scale = Callable[[float], float]  # from a value to its place in px
PLAIN, SMALL = 12.0, 10.5  # px, the font sizes of text and of numbers of items
LINE = 14.5  # px from one line of text to the next
SPACE = 6  # px, the least distance of two labels
LONGEST = 150  # px of a label that is turned
NAME_WIDTH = 200  # px of a name beside a chart
ROW = 30  # px of one system in a dot plot
DODGE = 5  # px between the points of two systems in one bin
NAME_GAP = 15  # px, the least distance of two names
NARROW, WIDE = 340, 680  # px


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

    @property
    def width(self) -> float:
        return NARROW if self.is_narrow else WIDE

    def text(
        self,
        x: float,
        y: float,
        text: str,
        kind: str = "",
        anchor: str = "start",
        *,
        is_turned: bool = False,  # by 90 degrees, to be read upwards
    ) -> None:
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if is_turned else ""
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>'
            f"{escape(text)}</text>"
        )

    def caption(self, text: str) -> None:
        """Write the label of the x axis at the foot, on as many lines as it takes."""
        lines = wrap(text, self.width - 2 * SPACE)
        half = max(map(text_width, lines)) / 2 + SPACE
        middle = min(max((self.left + self.right) / 2, half), self.width - half)
        for line in lines:
            self.height += LINE
            self.text(middle, self.height - 6, line, "axis", "middle")

    def path(self, points: Sequence[Point], kind: str) -> None:
        if len(points) > 1:
            steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline class="curve {kind}" points="{steps}"/>')

    def mark(self, x: float, y: float, index: int, label: str, *, is_hollow: bool = False) -> None:
        """Draw a point; its shape distinguishes systems without colour."""
        kind = "mark hollow" if is_hollow else "mark"
        self.parts.append(
            f'<g class="{kind} {_colour(index)}" transform="translate({x:.1f} {y:.1f})">'
            f"<title>{escape(label)}</title>{_SHAPES[index % len(_SHAPES)]}</g>"
        )

    def svg(self, title: str) -> str:
        kind = "narrow" if self.is_narrow else "wide"
        return (
            f'<svg class="chart {kind}" viewBox="0 0 {self.width} {self.height:.0f}" '
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
    return plot(figure, is_narrow=False) + plot(figure, is_narrow=True)


def draw_curves(item: CurveTable) -> str:
    """Return lines over numbers as SVG, wide and narrow."""
    return _curves(item, is_narrow=False) + _curves(item, is_narrow=True)


def _bins(figure: Figure, *, is_narrow: bool) -> str:
    """Draw a line per system over ordered bins, with intervals and items per bin."""
    canvas = _canvas(figure.series, extremes(figure), is_narrow=is_narrow)
    slot = (canvas.right - canvas.left) / len(figure.bins)
    y = _vertical(canvas, extremes(figure), figure.y_label)
    centre = [canvas.left + slot * (place + 0.5) for place in range(len(figure.bins))]
    if figure.baseline is not None:
        height = y(figure.baseline)
        canvas.line(canvas.left, height, canvas.right, height, "baseline")
    _bin_labels(canvas, figure, centre, slot)
    dodge = min(DODGE, 0.8 * slot / len(figure.series))
    shift = (len(figure.series) - 1) / 2
    names = canvas.right, canvas.base  # their left edge and lowest height
    for first, last in empty_runs(figure):
        x, room = (centre[first] + centre[last]) / 2, slot * (last - first + 1)
        is_turned = room < text_width(NO_DATA) + SPACE
        height = (canvas.top + canvas.base) / 2
        if first and last == len(centre) - 1 and not (is_narrow or is_turned):
            # beside the last points, over the empty bins
            names = centre[first - 1] + shift * dodge, canvas.base - LINE - SPACE
            height = canvas.base - 4
        if room > LINE:
            canvas.text(x + 4 * is_turned, height, NO_DATA, "empty", "middle", is_turned=is_turned)
    count = f"n: number of {figure.count_label}" if figure.counts else total_note(figure)
    canvas.caption("; ".join(filter(None, [figure.x_label, count, few_note(figure)])))
    ends = []
    for order, series in enumerate(figure.series):
        xs = [x + (order - shift) * dodge for x in centre]
        ends.append(_series(canvas, figure, series, xs, y))
    _name_ends(canvas, figure.series, ends, *names)
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
        if has_values and figure.kind == "line":  # a bin without data interrupts the line
            canvas.path([point for point in group if point is not None], kind)
    end = None
    for place, point in enumerate(points):
        if point is None:
            continue
        low, high = series.low[place], series.high[place]
        if low is not None and high is not None:
            canvas.line(xs[place], y(low), xs[place], y(high), f"bar {kind}")
        value = shown_value(figure, series, place)
        label = f"{isolated(series.system)}, {figure.bins[place]}: {value}"
        canvas.mark(*point, series.index, label, is_hollow=is_few(figure, place))
        end = point[1]
    return end


def _dots(figure: Figure, *, is_narrow: bool) -> str:
    """Draw one number per system as a point on its own row, with its interval."""
    names = fitted_names([s.system for s in figure.series], NARROW - 8 if is_narrow else NAME_WIDTH)
    beside = 16.0 if is_narrow else 22 + max(text_width(name, is_bold=True) for name in names)
    row = ROW + (16 if is_narrow else 0)
    base = 8 + row * len(figure.series)
    canvas = _Canvas(is_narrow, base, beside, (NARROW if is_narrow else WIDE) - 90, 8, base)
    x = _horizontal(canvas, extremes(figure), has_grid=True)
    if figure.baseline is not None:
        canvas.line(x(figure.baseline), canvas.top, x(figure.baseline), base, "baseline")
    few = few_note(figure)
    canvas.caption(f"{figure.y_label}; {few}" if few else figure.y_label)
    for order, (name, series) in enumerate(zip(names, figure.series, strict=True)):
        height = canvas.top + row * (order + 0.5) + (8 if is_narrow else 0)
        kind = _colour(series.index)
        if is_narrow:
            canvas.text(4, height - 14, name, f"name {kind}")
        else:
            canvas.text(beside - 12, height + 4, name, f"name {kind}", "end")
        value, least, most = series.values[0], series.low[0], series.high[0]
        if least is not None and most is not None:
            canvas.line(x(least), height, x(most), height, f"bar {kind}")
        if value is not None:
            label = f"{isolated(series.system)}: {shown_value(figure, series, 0)}"
            canvas.mark(x(value), height, series.index, label, is_hollow=is_few(figure, 0))
        canvas.text(canvas.right + 16, height + 4, shown(value, figure.digits))
    return canvas.svg(figure.title)


def _curves(item: CurveTable, *, is_narrow: bool) -> str:
    curves, (x_label, y_label) = item.curves, item.columns[2:]
    updates, values = zip(*(point for curve in curves for point in curve.points), strict=True)
    ends_of_values = min(values), max(values)
    canvas = _canvas(curves, ends_of_values, is_narrow=is_narrow)
    y = _vertical(canvas, ends_of_values, y_label)
    x = _horizontal(canvas, (0.0, max(updates)))
    canvas.caption(x_label)
    ends = []
    for curve in curves:
        points = [(x(update), y(value)) for update, value in curve.points]
        canvas.path(points, _colour(curve.index))
        for point, (update, value) in zip(points, curve.points, strict=True):
            label = f"{isolated(curve.system)}, {x_label} {update:,.0f}: {value:.2f}"
            canvas.mark(*point, curve.index, label)
        ends.append(points[-1][1])
    _name_ends(canvas, curves, ends, canvas.right, canvas.base)
    return canvas.svg(item.title)


def _canvas(
    systems: Sequence[Series | Curve], ends: tuple[float, float], *, is_narrow: bool
) -> _Canvas:
    """Return a canvas with room for the labels of the y axis and, if wide, for names beside it."""
    left = 14 + max(map(text_width, tick_labels(ticks(*ends))))
    if is_narrow:
        return _Canvas(is_narrow, 190, max(44, left), NARROW - 16, 26, 190)
    names = fitted_names([system.system for system in systems], NAME_WIDTH)
    beside = 20 + max(text_width(name, is_bold=True) for name in names)
    base = max(230, 26 + NAME_GAP * (len(systems) + 1))
    return _Canvas(is_narrow, base, max(52, left), WIDE - beside, 26, base)


def _horizontal(canvas: _Canvas, ends: tuple[float, float], *, has_grid: bool = False) -> Scale:
    """Draw an x axis of numbers under the plot; return its scale."""
    marks = ticks(*ends, 4 if canvas.is_narrow else 6)
    scale = (canvas.right - canvas.left) / (marks[-1] - marks[0])

    def x(value: float) -> float:
        return canvas.left + (value - marks[0]) * scale

    texts = tick_labels(marks)
    widest = max(map(text_width, texts))
    every = _every(widest, x(marks[1]) - x(marks[0]))
    canvas.height += LINE + 2
    for number, (mark, text) in enumerate(zip(marks, texts, strict=True)):
        if has_grid:
            canvas.line(x(mark), canvas.top, x(mark), canvas.base, "grid")
        if number % every == 0:
            half = text_width(text) / 2
            place = min(max(x(mark), half), canvas.width - half)
            canvas.text(place, canvas.height, text, "quiet", "middle")
    canvas.height += SPACE
    return x


def _every(width: float, slot: float) -> int:
    """Return n such that every n-th label can be written: each has a `width`, one per `slot`."""
    return max(1, math.ceil((width + SPACE) / slot))


def _vertical(canvas: _Canvas, ends: tuple[float, float], label: str) -> Scale:
    """Draw the y axis; return its scale."""
    marks = ticks(*ends)
    scale = (canvas.base - canvas.top) / (marks[-1] - marks[0])

    def y(value: float) -> float:
        return canvas.base - (value - marks[0]) * scale

    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(canvas.left, y(mark), canvas.right, y(mark), "grid")
        canvas.text(canvas.left - 6, y(mark) + 4, text, "quiet", "end")
    canvas.text(2, 13, label, "axis")
    return y


def _bin_labels(canvas: _Canvas, figure: Figure, centre: Sequence[float], slot: float) -> None:
    """Write every bin with its number of items below; both are turned where they are too wide."""
    room = slot - SPACE
    counts = [f"n {count:,}" for count in figure.counts] or [""] * len(figure.bins)
    turned = [
        fit(f"{label} · {count}" if count else label, LONGEST)
        for label, count in zip(figure.bins, counts, strict=True)
    ]
    if any(text_width(text, SMALL) > room for text in counts):
        counts = [text.removeprefix("n ") for text in counts]
    for size, kind in ((PLAIN, ""), (SMALL, "small")):
        lines = [_broken(label, room, size) for label in figure.bins]
        widths = [text_width(line, size) for label in lines for line in label]
        if max([*widths, *(text_width(text, SMALL) for text in counts)]) > room:
            continue
        foot = canvas.base + 1 + LINE * (max(map(len, lines)) - (not figure.counts))
        for x, label, count in zip(centre, lines, counts, strict=True):
            for number, line in enumerate(label):
                canvas.text(x, canvas.base + 1 + LINE * (number + 1), line, kind, "middle")
            canvas.text(x, foot + LINE, count, "small quiet", "middle")
        canvas.height = foot + LINE + SPACE
        return
    for place in range(0, len(turned), _every(LINE - SPACE, slot)):
        text = turned[place]
        canvas.text(centre[place] + 4, canvas.base + 8, text, "", "end", is_turned=True)
    canvas.height = canvas.base + 8 + max(map(text_width, turned)) + SPACE


def _broken(label: str, room: float, size: float) -> list[str]:
    """Return a label on one line if there is room, else on two."""
    if text_width(label, size) <= room or not ("–" in label or " " in label):
        return [label]
    first, mark, last = label.partition("–" if "–" in label else " ")
    return [f"{first}{mark}".strip(), last]


def _name_ends(
    canvas: _Canvas,
    systems: Sequence[Series | Curve],
    ends: Sequence[float | None],
    left: float,
    lowest: float,
) -> None:
    """Write the names beside the ends of the lines of a wide plot, moved apart where needed.

    Args:
        canvas: the plot.
        systems: its systems.
        ends: the height at which each line ends, None without a line.
        left: where the lines end.
        lowest: the height below which no name is written.
    """
    if canvas.is_narrow:
        return
    placed = sorted((end, order) for order, end in enumerate(ends) if end is not None)
    heights = apart([end for end, _ in placed], NAME_GAP, canvas.top, lowest)
    names = fitted_names([system.system for system in systems], NAME_WIDTH)
    for height, (_, order) in zip(heights, placed, strict=True):
        kind = f"name {_colour(systems[order].index)}"
        canvas.text(left + 8, height + 4, names[order], kind)
