"""Figures as SVG and PNG for print: direct labels, and no marks without data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.figures.results import NO_DATA, Figure, Series
from jtrans.analysis.output.scales import apart, colour, extremes, tick_labels, ticks
from jtrans.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png")
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
INK, GREY = "#222222", "#777777"
PLAIN: Any = {
    "font.size": 9.0,
    "svg.hashsalt": "jtrans",  # the same numbers give the same bytes
    "text.parse_math": False,  # a $ in a token or a run's name is a $
}
STYLE: Any = {
    **PLAIN,
    "font.family": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "path",
}
WIDTH, HEIGHT = 5.2, 3.0  # inches: one column and a half
MANY_BINS = 6  # more have smaller labels
LABEL_GAP = 0.075  # least distance of two labels, as a share of the axis


def draw(figure: Figure, stem: Path) -> list[Path]:
    """Draw a figure as SVG and PNG; return the files."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.add_subplot()
        marks = ticks(*extremes(figure))
        axes.set_ylim(marks[0], marks[-1])
        axes.set_yticks(marks, tick_labels(marks))
        axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        axes.set_axisbelow(True)
        if figure.kind == "bars":
            _bars(axes, figure)
        else:
            _lines(axes, figure)
        axes.set_title(figure.title, color=INK)
        axes.set_ylabel(figure.y_label)
        if figure.baseline is not None:
            axes.axhline(figure.baseline, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
        return save(canvas, stem, dots=200)


def save(canvas: Any, stem: Path, *, dots: int) -> list[Path]:
    """Write a matplotlib figure in every format, the PNG with `dots` per inch; return the files."""
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    for path, ending in zip(paths, FORMATS, strict=True):
        with whole_file(path) as temporary:
            metadata = {"Date": None} if ending == "svg" else {}
            canvas.savefig(temporary, format=ending, dpi=dots, metadata=metadata)
    return paths


def _lines(axes: Axes, figure: Figure) -> None:
    count = len(figure.series)
    for number, series in enumerate(figure.series):
        shift = 0.08 * (number - (count - 1) / 2)  # intervals side by side, not one on another
        _line(axes, series, shift)
    size = 8 if len(figure.bins) > MANY_BINS else 9
    labels = [f"{label}\n{n:,}" for label, n in zip(figure.bins, figure.counts, strict=True)]
    axes.set_xticks(range(len(figure.bins)), labels, fontsize=size)
    axes.set_xlim(-0.4, len(figure.bins) - 0.6)
    axes.set_xlabel(f"{figure.x_label}; below: number of {figure.count_label}")
    for place in figure.empty_bins:
        x_data = axes.get_xaxis_transform()  # y is a share of the axis
        axes.text(place, 0.02, NO_DATA, transform=x_data, ha="center", color=GREY, fontsize=8)
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
        clip_on=False,
    )
    for x, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
        if low is not None and high is not None:
            axes.plot([x + shift] * 2, [low, high], color=ink, linewidth=1.0, alpha=0.55)


def _end_labels(axes: Axes, figure: Figure) -> None:
    """Write each system's name at the end of its line, moved apart where two would meet."""
    low, high = axes.get_ylim()
    ends = []
    right = 0
    for series in figure.series:
        known = [place for place, value in enumerate(series.values) if value is not None]
        right = max([right, *known])
        ends.append((series.values[known[-1]] or 0.0 if known else low, series))
    ends.sort(key=lambda end: end[0])
    heights = apart([height for height, _ in ends], LABEL_GAP * (high - low), low, high)
    for place, (_, series) in zip(heights, ends, strict=True):
        axes.annotate(
            series.system,
            (right + 0.12 + 0.04 * len(ends), place),
            color=colour(series.index),
            va="center",
            annotation_clip=False,
        )


def _bars(axes: Axes, figure: Figure) -> None:
    names = [series.system for series in figure.series]
    for row, series in enumerate(figure.series):
        value, low, high = series.values[0], series.low[0], series.high[0]
        ink = colour(series.index)
        if value is None:
            axes.annotate(NO_DATA, (row, 0), xycoords=("data", "axes fraction"), ha="center")
            continue
        axes.plot([row], [value], color=ink, marker="o", markersize=7)
        axes.annotate(
            f"{value:.{figure.digits}f}",
            (row, value),
            (9, 0),
            textcoords="offset points",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},  # over the grid
        )
        if low is not None and high is not None:
            axes.plot([row, row], [low, high], color=ink, linewidth=1.6)
    axes.set_xticks(range(len(names)), names)
    for label, series in zip(axes.get_xticklabels(), figure.series, strict=True):
        label.set_color(colour(series.index))
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_xlabel(
        f"{figure.x_label}: {figure.bins[0]}, {figure.counts[0]:,} {figure.count_label}"
    )
