"""Figures for print: names beside the lines, and gaps where there is no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.figures.results import NO_DATA, CurveTable, Figure, Series
from jtrans.analysis.output.fonts import drawing_style, fonts_for
from jtrans.analysis.output.labels import fitted_names, text_width
from jtrans.analysis.output.scales import (
    COLOURS,
    apart,
    colour,
    empty_runs,
    extremes,
    few_note,
    is_few,
    text_colour,
    tick_labels,
    ticks,
    total_note,
)
from jtrans.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
# without the time of drawing: the same numbers give the same bytes
METADATA: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
# those of the page; not as many as colours, or the eighth system would look like the first
MARKERS = ["o", "s", "^", "D"]
INK, GREY = "#222222", "#707070"
PLAIN: Any = {
    "font.size": 9.0,
    "svg.hashsalt": "jtrans",  # the same numbers give the same bytes
    "text.parse_math": False,  # a $ in a token or a run's name is a $
}
STYLE: Any = {
    **PLAIN,
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
MANY_BINS = 6  # the labels of more bins are smaller
MOST_LABELS = 18  # bins with a label: enough for all parts of speech
NAME_WIDTH, ROOM = 130.0, 240.0  # points: width of a system's name, of the axis beside names
BAR_WIDTH = 0.85  # inches: a system's mark and the number beside it
MORE = 1.2  # inches, additional height for turned labels
# from one system to the next, and of all systems together, as shares of a bin's width
SHIFT, MOST_SHIFT = 0.08, 0.7
LABEL_GAP = 0.075  # least distance of two labels, as a share of an axis of the usual height


def draw(figure: Figure, stem: Path) -> list[Path]:
    """Draw a figure in every format; return the files."""
    names = [series.system for series in figure.series]
    with drawing_style(STYLE, fonts_for([*names, *figure.bins])[0]):
        growth = 1.0 if figure.kind == "bars" else _growth(len(names))
        height = HEIGHT * growth + MORE * _are_wide(figure)
        width = max(WIDTH, BAR_WIDTH * len(names)) if figure.kind == "bars" else WIDTH
        canvas, axes = _empty_plot(width, height, extremes(figure))
        if figure.kind == "bars":
            _bars(axes, figure)
        else:
            _lines(axes, figure)
        axes.set_title(figure.title, color=INK)
        axes.set_ylabel(figure.y_label)
        if figure.baseline is not None:
            axes.axhline(figure.baseline, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
        return save(canvas, stem, dots=200)


def draw_curves(item: CurveTable, stem: Path) -> list[Path]:
    """Draw lines over numbers in every format; return the files."""
    curves, (x_label, y_label) = item.curves, item.columns[2:]
    xs, ys = zip(*(point for curve in curves for point in curve.points), strict=True)
    named = [curve for curve in curves if curve.system]
    with drawing_style(STYLE, fonts_for([curve.system for curve in named])[0]):
        canvas, axes = _empty_plot(WIDTH, HEIGHT * _growth(len(named)), (min(ys), max(ys)))
        for curve in curves:
            axes.plot(
                *zip(*curve.points, strict=True),
                color=colour(curve.index),
                marker=MARKERS[curve.index % len(MARKERS)],
                markersize=3.5,
                linewidth=1.4,
                clip_on=False,
            )
        marks = ticks(0.0, max(xs))
        axes.set_xlim(marks[0], marks[-1])
        axes.set_xticks(marks, tick_labels(marks))
        axes.set_title(item.title, color=INK)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        names = fitted_names([curve.system for curve in named], NAME_WIDTH, 9)
        ends = [curve.points[-1][1] for curve in named]
        _end_labels(axes, names, ends, [curve.index for curve in named])
        return save(canvas, stem, dots=200)


def _empty_plot(width: float, height: float, ends: tuple[float, float]) -> tuple[Any, Axes]:
    """Return a matplotlib figure and its axes, with a grid at the ticks of the value axis."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(width, height), layout="constrained")
    axes = canvas.add_subplot()
    marks = ticks(*ends)
    axes.set_ylim(marks[0], marks[-1])
    axes.set_yticks(marks, tick_labels(marks))
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    return canvas, axes


def save(canvas: Any, stem: Path, *, dots: int) -> list[Path]:
    """Write a matplotlib figure in every format, the PNG with `dots` per inch; return the files."""
    from matplotlib.patheffects import Normal
    from matplotlib.text import Text

    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    for path, ending in zip(paths, FORMATS, strict=True):
        if ending == "pdf":  # outlines: any font in any script, and none for a publisher to refuse
            for text in canvas.findobj(Text):
                text.set_path_effects([Normal()])
        with whole_file(path) as temporary:
            canvas.savefig(temporary, format=ending, dpi=dots, metadata=METADATA.get(ending))
    return paths


def _lines(axes: Axes, figure: Figure) -> None:
    count = len(figure.series)
    step = min(SHIFT, MOST_SHIFT / count)
    for number, series in enumerate(figure.series):
        shift = step * (number - (count - 1) / 2)  # intervals side by side, not overlapping
        _line(axes, figure, series, shift)
    axes.set_xlim(-0.4, len(figure.bins) - 0.6)
    is_wide = _are_wide(figure)
    glue = " · n " if is_wide else "\n"
    labels, notes = figure.bins, [total_note(figure), few_note(figure)]
    if figure.counts:
        labels = [f"{label}{glue}{n:,}" for label, n in zip(labels, figure.counts, strict=True)]
        notes = [f"{'n' if is_wide else 'below'}: number of {figure.count_label}", *notes]
    every = 1 + (len(labels) - 1) // MOST_LABELS
    size = 8 if len(labels) > MANY_BINS else 9
    axes.set_xticks(range(0, len(labels), every), labels[::every], fontsize=size)
    axes.tick_params(axis="x", rotation=90 if is_wide else 0)
    axes.set_xlabel("; ".join(filter(None, [figure.x_label, *notes])), wrap=True)
    for first, last in empty_runs(figure):
        if (last - first + 1) * ROOM > len(labels) * text_width(NO_DATA, 8):
            x_data = axes.get_xaxis_transform()  # y is a share of the axis
            style: Any = {"ha": "center", "color": GREY, "fontsize": 8, "transform": x_data}
            axes.text((first + last) / 2, 0.02, NO_DATA, **style)
    known = [[value for value in series.values if value is not None] for series in figure.series]
    lowest = axes.get_ylim()[0]
    ends = [values[-1] if values else lowest for values in known]
    _end_labels(axes, _names(figure), ends, [series.index for series in figure.series])


def _growth(names: int) -> float:
    """Return how many times the usual height is needed for the names at the ends of lines."""
    return max(1.0, LABEL_GAP * names)


def _names(figure: Figure) -> list[str]:
    return fitted_names([series.system for series in figure.series], NAME_WIDTH, 9)


def _are_wide(figure: Figure) -> bool:
    """Return whether the labels under the axis are turned: too wide to stand side by side."""
    labels = _names(figure) if figure.kind == "bars" else figure.bins
    return max(text_width(label, 9) for label in labels) * len(labels) > ROOM


def _line(axes: Axes, figure: Figure, series: Series, shift: float) -> None:
    ink = colour(series.index)
    marker = MARKERS[series.index % len(MARKERS)]
    axes.plot(
        [x + shift for x in range(len(series.values))],
        [math.nan if y is None else y for y in series.values],  # nan interrupts the line
        color=ink,
        marker=marker,
        markersize=4.5,
        linewidth=1.4 if figure.kind == "line" else 0.0,
        clip_on=False,
    )
    for x, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
        if low is not None and high is not None:
            axes.plot([x + shift] * 2, [low, high], color=ink, linewidth=1.0, alpha=0.55)
        value = series.values[x]
        if is_few(figure, x) and value is not None:
            hollow: Any = {"color": ink, "markerfacecolor": "white", "markersize": 4.5}
            axes.plot([x + shift], [value], marker=marker, clip_on=False, **hollow)


def _end_labels(
    axes: Axes, names: Sequence[str], places: Sequence[float], indices: Sequence[int]
) -> None:
    """Write each system's name at the end of its line, moved apart where two would overlap."""
    from matplotlib.transforms import offset_copy

    low, high = axes.get_ylim()
    right = axes.get_xlim()[1]  # outside the axes, even if the last bin is empty
    ends = sorted(zip(places, names, indices, strict=True), key=lambda end: end[0])
    gap = LABEL_GAP / _growth(len(ends)) * (high - low)
    heights = apart([height for height, *_ in ends], gap, low, high)
    has_marks = len(ends) > len(COLOURS)  # which alone tell systems of one colour apart
    canvas = axes.get_figure(root=True)
    for place, (_, name, index) in zip(heights, ends, strict=True):
        if has_marks:
            beside = offset_copy(axes.transData, canvas, x=8.0, units="points")
            style: Any = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4.5}
            axes.plot(right, place, color=colour(index), transform=beside, clip_on=False, **style)
        axes.annotate(
            name,
            (right, place),
            (16 if has_marks else 4, 0),
            textcoords="offset points",
            color=text_colour(index),
            va="center",
            annotation_clip=False,
        )


def _bars(axes: Axes, figure: Figure) -> None:
    names = _names(figure)
    for row, series in enumerate(figure.series):
        value, low, high = series.values[0], series.low[0], series.high[0]
        ink = colour(series.index)
        if value is None:
            axes.annotate(NO_DATA, (row, 0), xycoords=("data", "axes fraction"), ha="center")
            continue
        face = "white" if is_few(figure, 0) else ink
        marker = MARKERS[series.index % len(MARKERS)]
        axes.plot([row], [value], color=ink, marker=marker, markersize=7, markerfacecolor=face)
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
    turned: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, **(turned if _are_wide(figure) else {}))
    for label, series in zip(axes.get_xticklabels(), figure.series, strict=True):
        label.set_color(text_colour(series.index))
    axes.set_xlim(-0.6, len(names) - 0.4)
    few = few_note(figure)
    axes.set_xlabel(
        f"{figure.x_label}: {figure.bins[0]}, {figure.counts[0]:,} {figure.count_label}"
        + (f"; {few}" if few else "")
    )
