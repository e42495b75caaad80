"""Tables of positive and negative weights as pictures: blue and red, and white at zero."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

from jtrans.analysis.figures.results import Heatmap
from jtrans.analysis.output.fonts import drawing_style, fonts_for
from jtrans.analysis.output.plots import PLAIN, save

MOST_LABELLED = 13  # columns: the cells of wider tables have no room for their numbers
MOST_TICKS = 20  # labels on an axis; if there are more, every n-th is written
CELL, SMALL_CELL = 0.46, 0.13  # inches, the side of cells with and without numbers
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"
GREY = "#555555"
DARK = 0.55  # share of the greatest weight above which numbers are white
LEGEND = 280.0  # px; it is beside a narrower table, or in the empty corner of a wider one
WIDTHS = (("wide", 680), ("narrow", 340))  # px, of the two drawings for a page


def greatest(item: Heatmap) -> float:
    """Return the greatest absolute weight."""
    weights = [abs(weight) for row in item.values for weight in row if weight is not None]
    return max(weights, default=0.0) or 1.0


def labelled(count: int, step: int) -> list[int]:
    """Return which of `count` labels are written: the first, every `step`-th, and the last."""
    return [*range(0, count - step, step), count - 1]


def draw_weights(item: Heatmap, stem: Path) -> list[Path]:
    """Draw a table of weights; return the files."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    columns, rows = item.columns[1:], [str(row[0]) for row in item.rows]
    values = np.array(
        [[math.nan if weight is None else weight for weight in row] for row in item.values]
    )
    is_labelled, limit = len(columns) <= MOST_LABELLED, greatest(item)
    cell = CELL if is_labelled else SMALL_CELL
    with drawing_style({**PLAIN, "svg.fonttype": "path"}, fonts_for([item.title])[0]):
        size = max(3.2, cell * len(columns))
        figure = Figure(figsize=(size + 1.7, size + 1.1), layout="constrained")
        axes = figure.add_subplot()
        colours = LinearSegmentedColormap.from_list("weights", [NEGATIVE, "white", POSITIVE])
        image = axes.imshow(np.ma.masked_invalid(values), cmap=colours, vmin=-limit, vmax=limit)
        for set_ticks, labels in ((axes.set_xticks, columns), (axes.set_yticks, rows)):
            places = labelled(len(labels), math.ceil(len(labels) / MOST_TICKS))
            set_ticks(places, [labels[place] for place in places])
        axes.tick_params(length=2, color="#999999", labelsize=8)
        axes.set_xlabel(item.column_axis, color=GREY)
        axes.set_ylabel(item.columns[0], color=GREY)
        axes.set_title(item.title, fontsize=10, loc="left")
        for side in axes.spines.values():
            side.set_visible(False)
        if is_labelled:
            _number_cells(axes, item, limit)
        bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=25, label="weight")
        bar.ax.tick_params(length=2, labelsize=8)
        bar.outline.set_visible(False)
        return save(figure, stem, dots=180)


def _number_cells(axes: Any, item: Heatmap, limit: float) -> None:
    for r, row in enumerate(item.values):
        for c, weight in enumerate(row):
            if weight is not None:
                ink = "white" if abs(weight) > DARK * limit else "#222222"
                axes.text(c, r, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=ink)


def weights_svg(item: Heatmap) -> str:
    """Return a table of weights as SVG for a page, wide and narrow; hovering shows the numbers."""
    return "".join(_svg(item, kind, width) for kind, width in WIDTHS)


def _svg(item: Heatmap, kind: str, width: int) -> str:
    columns, rows = item.columns[1:], [str(row[0]) for row in item.rows]
    left, top, limit = 46.0, 6.0, greatest(item)
    side = min((width - left - 8) / len(columns), 34.0)
    parts = []
    for r, row in enumerate(item.values):
        for c, weight in enumerate(row):
            if weight is None:
                continue
            x, y = left + c * side, top + r * side
            ink = POSITIVE if weight >= 0 else NEGATIVE
            words = f"{columns[c]} in {item.columns[0]} {rows[r]}: {weight:.3f}"
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
                f'fill="{ink}" fill-opacity="{abs(weight) / limit:.3f}">'
                f"<title>{escape(words)}</title></rect>"
            )
            if side >= 30:
                white = ' style="fill:#fff"' if abs(weight) > DARK * limit else ""
                attributes = f' class="small"{white}'
                parts.append(_text(x + side / 2, y + side / 2 + 4, f"{weight:.2f}", attributes))
    size = side * len(columns)
    step = max(1, math.ceil(14 / side))  # px between the labels of rows
    for place in labelled(len(rows), step):
        y = top + (place + 0.5) * side + 4
        parts.append(_text(left - 5, y, rows[place], ' text-anchor="end" class="small"'))
    step = max(1, math.ceil(26 / side))
    for place in labelled(len(columns), step):
        x = left + (place + 0.5) * side
        parts.append(_text(x, top + size + 14, columns[place], ' class="small"'))
    right = left + size if size >= LEGEND else min(left + size + LEGEND, width - 4.0)
    parts.append(_legend(right, top, limit, f"{item.column_axis} ↓  {item.columns[0]} ←"))
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {width} {top + max(size, 48.0) + 20:.0f}" '
        f'role="img" aria-label="{escape(item.title, quote=True)}">{"".join(parts)}</svg>'
    )


def _legend(right: float, top: float, limit: float, axes: str) -> str:
    """Return the scale of colours, in the empty corner above the diagonal."""
    parts = [_text(right, top + 12, axes, ' text-anchor="end" class="axis"')]
    swatch = 22
    for place, share in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0)):
        x, ink = right - swatch * (5 - place), POSITIVE if share >= 0 else NEGATIVE
        parts.append(
            f'<rect x="{x:.1f}" y="{top + 20:.1f}" width="{swatch}" height="10" fill="{ink}" '
            f'fill-opacity="{abs(share)}" class="grid"/>'
        )
        if place % 2 == 0:
            number = f"{share * limit:.2f}" if share else "0"
            parts.append(_text(x + swatch / 2, top + 42, number, ' class="small"'))
    return "".join(parts)


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    anchor = "" if "text-anchor" in attributes else ' text-anchor="middle"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchor}{attributes}>{escape(words)}</text>'
