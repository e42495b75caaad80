"""Attention matrices as pictures, with matplotlib: SVG with text as text, and PNG."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jtrans.analysis.attention.views import Matrix, View
from jtrans.analysis.output.plots import PLAIN, save
from jtrans.progress import Progress

CELL = 0.26  # inches
LETTER = 0.085  # inches a letter of a label takes
MOST_COLUMNS = 4  # of panels
FIRST_UPRIGHT = 0x2E7F  # of the characters of Chinese, Japanese and Korean
_GREY = "#555555"
DEFAULT = "DejaVu Sans"  # comes with matplotlib
# Tried first where they are installed: good coverage, upright, regular weight.
PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "Noto Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "SimHei",
    "Arial Unicode MS",
)


def draw_view(view: View, stem: Path, progress: Progress) -> list[Path]:
    """Draw the matrices of a view side by side, as SVG and PNG; return the files."""
    import matplotlib

    labels = [label for matrix in view.matrices for label in (*matrix.rows, *matrix.columns)]
    families, missing = fonts_for([*labels, view.title])
    if missing:
        progress.warn(
            f"no installed font has {missing[:12]}: the PNG shows boxes instead; "
            "SVG and HTML work where there is a font. On Debian: apt install fonts-noto-cjk"
        )
    # it would report every family that has no face of exactly the weight asked for
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    settings: Any = {**PLAIN, "svg.fonttype": "none", "font.family": families}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # reported in our own words
        figure = _figure(view)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # once is enough for all formats
        return save(figure, stem, dots=160)


def _figure(view: View) -> Any:
    """Lay the panels out on a grid, labels of the axes at its edges only."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
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
    """Return the inches one panel needs with its labels."""
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
    """Whether a label is Chinese, Japanese or Korean, which is stacked and not rotated."""
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


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return the families that show some texts together, and the characters that none has.

    The default comes first: matplotlib takes each character from the first family that has it.
    """
    missing = {character for text in texts for character in text if character.isprintable()}
    families = [DEFAULT]
    missing -= _characters(DEFAULT)
    for family in installed_fonts() if missing else ():
        covered = missing & _characters(family)
        if covered:
            families.append(family)
            missing -= covered
        if not missing:
            break
    return families, "".join(sorted(missing))


@cache
def installed_fonts() -> dict[str, str]:
    """Return the installed families and a file of each, the preferred ones first."""
    from matplotlib.font_manager import fontManager

    files = {entry.name: entry.fname for entry in sorted(fontManager.ttflist, key=_by_plainness)}
    ordered = [*(name for name in PREFERRED if name in files), *sorted(files)]
    return {name: files[name] for name in ordered}


def _by_plainness(entry: Any) -> tuple[bool, str]:
    """Sort the upright face last, so that it is kept."""
    return (str(entry.style) == "normal", str(entry.fname))


@cache
def _characters(family: str) -> frozenset[str]:
    """Return the characters a family has; none where its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(installed_fonts()[family]).get_charmap()))
    except (KeyError, OSError, RuntimeError, ValueError):
        return frozenset()
