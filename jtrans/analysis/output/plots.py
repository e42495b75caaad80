"""Figures as SVG and PNG, as one would print them: direct labels, nothing that is no data.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; a system keeps its
colour in every figure.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.figures.figure import NO_DATA, Figure, Series
from jtrans.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = [
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
    "#000000",
]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
INK, FAINT = "#222222", "#BBBBBB"
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "jtrans",  # the same figure gives the same bytes
    "svg.fonttype": "path",
    "text.parse_math": False,  # a $ in a run's name is a $
}
WIDTH, HEIGHT = 5.2, 3.0  # inches: one column and a half
MANY_BINS = 6  # more have smaller labels
LABEL_GAP = 0.075  # least distance of two labels, as a share of the axis


def draw(figure: Figure, svg: Path, png: Path) -> None:
    """Draw a figure into two files.

    Args:
        figure: what to draw.
        svg: file to write.
        png: file to write, 200 dots per inch.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.add_subplot()
        if figure.kind == "bars":
            _bars(axes, figure)
        else:
            _lines(axes, figure)
        axes.set_title(figure.title, color=INK)
        axes.set_ylabel(figure.y_label)
        if figure.baseline is not None:
            axes.axhline(figure.baseline, color=FAINT, linewidth=0.8, zorder=0)
        with whole_file(svg) as temporary:
            canvas.savefig(temporary, format="svg", metadata={"Date": None})
        with whole_file(png) as temporary:
            canvas.savefig(temporary, format="png", dpi=200)


def colour(index: int) -> str:
    """Return the colour of the system with this index."""
    return COLOURS[index % len(COLOURS)]


def _lines(axes: Axes, figure: Figure) -> None:
    count = len(figure.series)
    for number, series in enumerate(figure.series):
        shift = 0.08 * (number - (count - 1) / 2)  # intervals side by side, not one on another
        _line(axes, series, shift)
    size = 8 if len(figure.bins) > MANY_BINS else 9
    axes.set_xticks(range(len(figure.bins)), _tick_labels(figure), fontsize=size)
    axes.set_xlim(-0.4, len(figure.bins) - 0.6)
    axes.set_xlabel(f"{figure.x_label}; below: number of {figure.count_label}")
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    for place in range(len(figure.bins)):
        if all(series.values[place] is None for series in figure.series):
            axes.text(
                place,
                0.02,
                NO_DATA,
                transform=axes.get_xaxis_transform(),
                ha="center",
                color="#777777",
                fontsize=8,
            )
    _end_labels(axes, figure)


def _line(axes: Axes, series: Series, shift: float) -> None:
    ink = colour(series.index)
    axes.plot(
        [x + shift for x in range(len(series.values))],
        [math.nan if y is None else y for y in series.values],  # nan interrupts the line
        color=ink,
        marker=MARKERS[series.index % len(MARKERS)],
        markersize=4.5,
        linewidth=1.4,
    )
    for x, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
        if low is not None and high is not None:
            axes.plot([x + shift] * 2, [low, high], color=ink, linewidth=1.0, alpha=0.55)


def _tick_labels(figure: Figure) -> list[str]:
    return [f"{label}\n{n:,}" for label, n in zip(figure.bins, figure.counts, strict=True)]


def _end_labels(axes: Axes, figure: Figure) -> None:
    """Write each system's name at the end of its line, moved apart where two would meet."""
    low, high = axes.get_ylim()
    gap = LABEL_GAP * (high - low)
    ends = []
    right = 0
    for series in figure.series:
        known = [place for place, value in enumerate(series.values) if value is not None]
        right = max([right, *known])
        ends.append((series.values[known[-1]] or 0.0 if known else low, series))
    ends.sort(key=lambda end: end[0])
    heights = _apart([height for height, _ in ends], gap, low, high)
    for place, (_, series) in zip(heights, ends, strict=True):
        axes.annotate(
            series.system,
            (right + 0.12 + 0.04 * len(ends), place),
            color=colour(series.index),
            va="center",
            annotation_clip=False,
        )


def _apart(heights: list[float], gap: float, low: float, high: float) -> list[float]:
    """Move rising heights at least `gap` apart, within the axis as far as they fit."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else max(height, low))
    over = max(0.0, placed[-1] - high) if placed else 0.0
    result: list[float] = []
    ceiling = float("inf")
    for height in reversed(placed):
        ceiling = min(height, high if over else height, ceiling - gap)
        result.append(ceiling)
    return result[::-1]


def _bars(axes: Axes, figure: Figure) -> None:
    names = []
    for row, series in enumerate(figure.series):
        names.append(series.system)
        value, low, high = series.values[0], series.low[0], series.high[0]
        ink = colour(series.index)
        if value is None:
            axes.annotate(NO_DATA, (row, 0), xycoords=("data", "axes fraction"), ha="center")
            continue
        axes.plot([row], [value], color=ink, marker="o", markersize=7)
        text = f"{value:.{figure.digits}f}"
        axes.annotate(text, (row, value), (9, 0), textcoords="offset points", va="center")
        if low is not None and high is not None:
            axes.plot([row, row], [low, high], color=ink, linewidth=1.6)
    axes.set_xticks(range(len(names)), names)
    for label, series in zip(axes.get_xticklabels(), figure.series, strict=True):
        label.set_color(colour(series.index))
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_xlabel(
        f"{figure.x_label}: {figure.bins[0]}, {figure.counts[0]:,} {figure.count_label}"
    )
    axes.margins(y=0.3)
