"""Attention matrices as pictures, with matplotlib; in SVG text stays text."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from jtrans.analysis.attention.views import Matrix, View
from jtrans.analysis.output.fonts import drawing_style, fonts_for
from jtrans.analysis.output.labels import shorten
from jtrans.analysis.output.plots import PLAIN, save
from jtrans.progress import Progress

CELL = 0.26  # inches
LETTER = 0.085  # inches, the width of a letter of a label
MOST_COLUMNS = 4  # panels side by side
FIRST_UPRIGHT = 0x2E7F  # code point: Chinese, Japanese and Korean characters come after it
_GREY = "#555555"
MOST_LETTERS = 30  # longer labels are cut


def draw_view(view: View, stem: Path, progress: Progress) -> list[Path]:
    """Draw the matrices of a view side by side; return the files."""
    view = _cut(view)
    labels = [label for matrix in view.matrices for label in (*matrix.rows, *matrix.columns)]
    families, missing = fonts_for([*labels, view.title])
    if missing:
        progress.warn(
            f"no installed font has {missing[:12]}: PNG and PDF show boxes instead; "
            "SVG and HTML work where there is a font. On Debian: apt install fonts-noto-cjk"
        )
    with drawing_style({**PLAIN, "svg.fonttype": "none"}, families):
        figure = _figure(view)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # one layout serves all formats
        return save(figure, stem, dots=160)


def _cut(view: View) -> View:
    """Return a view whose labels are short enough for a picture."""
    matrices = [
        replace(
            matrix,
            rows=[shorten(label, MOST_LETTERS) for label in matrix.rows],
            columns=[shorten(label, MOST_LETTERS) for label in matrix.columns],
        )
        for matrix in view.matrices
    ]
    return replace(view, title=shorten(view.title, 3 * MOST_LETTERS), matrices=matrices)


def _figure(view: View) -> Any:
    """Lay the panels out on a grid, with labels of the axes at its edges only."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    across = min(MOST_COLUMNS, len(view.matrices))
    down = math.ceil(len(view.matrices) / across)
    width, height = _size(view.matrices[0])
    least = LETTER * _width(view.title) + 0.3
    figure.set_size_inches(max(across * width, least), down * height + 0.3)
    figure.suptitle(view.title, fontsize=10)
    darkest = max(float(matrix.values.max()) for matrix in view.matrices)
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for panel, matrix in zip(panels, view.matrices, strict=False):
        _draw(panel, matrix, darkest)
    for panel in panels[len(view.matrices) :]:
        panel.set_visible(False)
    for panel in panels[:across]:
        panel.set_title(view.column_axis, fontsize=8, color=_GREY)
    for panel in panels[::across]:
        panel.set_ylabel(view.row_axis, fontsize=8, color=_GREY)
    return figure


def _size(matrix: Matrix) -> tuple[float, float]:
    """Return the width and height of a panel with its labels, in inches."""
    beside = LETTER * max(map(_width, matrix.rows))
    above = LETTER * max(map(_width, matrix.columns))
    R, C = matrix.values.shape
    return max(2.2, C * CELL + beside + 0.5), max(1.0, R * CELL) + above + 0.7


def _width(label: str) -> int:
    return sum(2 if _is_upright(character) else 1 for character in label)


def _stacked(label: str) -> str:
    if not _is_upright(label):
        return label
    word, mark = (label[:-2], "@@") if label.endswith("@@") else (label, "")
    return "\n".join([*word, *([mark] if mark else [])])


def _is_upright(label: str) -> bool:
    """Return whether a label is Chinese, Japanese or Korean, which is stacked and not rotated."""
    return any(ord(character) > FIRST_UPRIGHT for character in label)


def _draw(panel: Any, matrix: Matrix, darkest: float) -> None:
    panel.imshow(matrix.values, cmap="Blues", vmin=0.0, vmax=darkest, aspect="equal")
    panel.set_xticks(range(len(matrix.columns)), [_stacked(label) for label in matrix.columns])
    panel.set_yticks(range(len(matrix.rows)), matrix.rows)
    panel.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
    for text, label in zip(panel.get_xticklabels(), matrix.columns, strict=True):
        text.set_rotation(0 if _is_upright(label) or len(label) <= 2 else 90)
    for side in panel.spines.values():
        side.set_color("#bbbbbb")
    scale = f"darkest: {darkest:.2f}"
    panel.set_xlabel(" · ".join(filter(None, [matrix.caption, scale])), fontsize=8)
