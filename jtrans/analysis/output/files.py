"""The files of the analyses: numbers, pictures, word alignments."""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from jtrans.analysis.attention.layer_alignments import LayerAlignment
from jtrans.analysis.attention.pairs import ExplainedPair
from jtrans.analysis.figures.results import CurveTable, Figure, Heatmap, Table, as_json, as_table
from jtrans.analysis.output.heatmaps import draw_view
from jtrans.analysis.output.latex import latex_table
from jtrans.analysis.output.plots import FORMATS, draw, draw_curves
from jtrans.analysis.output.tables import numeric_columns, shown_table, to_csv, weights_csv
from jtrans.analysis.output.weight_maps import draw_weights
from jtrans.errors import JtransError
from jtrans.evaluation.names import file_names
from jtrans.files import read_json, write_json, write_text
from jtrans.progress import Progress
from jtrans.text.alignments import to_pharaoh

STEM_LETTERS = 40
NUMBERS = ("csv", "tex", "json")  # the endings of files with the numbers of an item
_NUMBER = re.compile(r"-\d+$")  # of a system, behind the name of its table


def write_results(items: Sequence[Figure | Table], folder: Path, *, prefix: str = "") -> list[Path]:
    """Write figures and tables into a folder, with a prefix such as ``test.``; return the files."""
    files = []
    for item in items:
        stem = folder / f"{prefix}{item.name}"
        table = as_table(item) if isinstance(item, Figure) else item
        paths = [_with(stem, ending) for ending in NUMBERS]
        write_text(paths[0], to_csv(table))
        write_text(paths[1], _latex(item))
        files += paths
        if isinstance(item, Figure):
            files += draw(item, stem)
        elif isinstance(item, Heatmap):
            files += draw_weights(item, stem)
        elif isinstance(item, CurveTable):
            files += draw_curves(item, stem)
        write_json(paths[2], as_json(item))  # last: `is_written` trusts the others if it is right
    return files


def is_written(item: Figure | Table, folder: Path, *, prefix: str = "") -> bool:
    """Return whether all files exist with exactly these numbers: they need not be drawn again."""
    is_drawn = isinstance(item, Figure | Heatmap | CurveTable)
    endings = (*NUMBERS, *FORMATS) if is_drawn else NUMBERS
    paths = [_with(folder / f"{prefix}{item.name}", ending) for ending in endings]
    if not all(path.is_file() for path in paths):
        return False
    try:
        return bool(read_json(paths[NUMBERS.index("json")]) == as_json(item))
    except JtransError:
        return False  # damaged: must be written again


def remove_renumbered(items: Sequence[Figure | Table], folder: Path, *, prefix: str) -> None:
    """Remove earlier tables of the same kinds as these, but of more or fewer systems.

    Such a table has another number, or none, behind its name: nothing would replace it, and it
    would stand beside the new ones as if it belonged to them.
    """
    names = {f"{prefix}{item.name}" for item in items}
    compared = [item.name for item in items if item.name.startswith("compare-")]
    kinds = {_NUMBER.sub("", f"{prefix}{name}") for name in compared}
    for path in (
        each for ending in NUMBERS for each in folder.glob(f"{glob.escape(prefix)}*.{ending}")
    ):
        if path.stem not in names and _NUMBER.sub("", path.stem) in kinds:
            path.unlink()


def write_alignments(
    alignments: Sequence[tuple[str, LayerAlignment]], folder: Path, *, prefix: str
) -> list[Path]:
    """Write word alignments in Pharaoh format, a file per run: its name and its alignment."""
    files = []
    names = file_names([name for name, _ in alignments])
    for name, (_, alignment) in zip(names, alignments, strict=True):
        path = folder / f"{prefix}{name}.alignments.txt"
        write_text(path, "".join(f"{to_pharaoh(pairs)}\n" for pairs in alignment.sentences))
        files.append(path)
    return files


def write_pair(pair: ExplainedPair, folder: Path, split: str, progress: Progress) -> list[Path]:
    """Write pictures, CSV and JSON of the attention of one pair; return the files.

    A line of the split is named by its number, any other sentence by its first words, followed by
    a number if another pair begins with the same words.
    """
    name = f"{split}-{pair.line + 1}" if pair.line is not None else _free_name(pair, folder)
    files = []
    for view in pair.shown:
        stem = folder / f"attention.{name}.{view.name}"
        files.append(_with(stem, "csv"))
        write_text(files[-1], weights_csv(view))
        files += draw_view(view, stem, progress)
    files.append(folder / f"attention.{name}.json")
    write_json(files[-1], pair.to_json())
    return files


def _latex(item: Figure | Table) -> str:
    columns, rows = shown_table(item)
    right = [name for name, number in zip(columns, numeric_columns(item), strict=True) if number]
    return latex_table(columns, rows, right=right, notes=filter(None, [item.title, item.note]))


def _free_name(pair: ExplainedPair, folder: Path) -> str:
    """Return a name that no other pair has in the folder; the same pair keeps its name."""
    slug = _slug(pair.source)
    names = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
    return next(name for name in names if _is_free(folder / f"attention.{name}.json", pair))


def _is_free(path: Path, pair: ExplainedPair) -> bool:
    if not path.exists():
        return True
    try:
        written = read_json(path)
    except JtransError:
        return True  # damaged
    own = {"system": pair.system, "source": pair.source, "target": pair.text}
    return isinstance(written, dict) and {key: written.get(key) for key in own} == own


def _slug(text: str) -> str:
    return "-".join(re.findall(r"\w+", text.lower()))[:STEM_LETTERS].rstrip("-") or "sentence"


def _with(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")
