"""The files of the analyses: CSV and JSON, SVG and PNG, word alignments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jtrans.analysis.attention.layer_alignments import LayerAlignment
from jtrans.analysis.attention.pairs import ExplainedPair
from jtrans.analysis.figures.results import Figure, Heatmap, Table, as_json, as_table
from jtrans.analysis.output.heatmaps import draw_view
from jtrans.analysis.output.plots import draw
from jtrans.analysis.output.tables import to_csv, weights_csv
from jtrans.analysis.output.weight_maps import draw_weights
from jtrans.errors import JtransError
from jtrans.evaluation.names import file_names
from jtrans.files import read_json, write_json, write_text
from jtrans.progress import Progress
from jtrans.text.alignments import to_pharaoh

STEM_LETTERS = 40


def write_results(items: Sequence[Figure | Table], folder: Path, *, prefix: str = "") -> list[Path]:
    """Write figures and tables into a folder, with a prefix such as ``test.``; return the files."""
    files = []
    for item in items:
        stem = folder / f"{prefix}{item.name}"
        table = as_table(item) if isinstance(item, Figure) else item
        files += [_with(stem, "csv"), _with(stem, "json")]
        write_text(files[-2], to_csv(table))
        write_json(files[-1], as_json(item))
        if isinstance(item, Figure):
            files += draw(item, stem)
        elif isinstance(item, Heatmap):
            files += draw_weights(item, stem)
    return files


def is_written(item: Figure | Table, folder: Path, *, prefix: str = "") -> bool:
    """Return whether all files exist with exactly these numbers: they need not be drawn again."""
    is_drawn = isinstance(item, Figure | Heatmap)
    endings = ("csv", "json", "svg", "png") if is_drawn else ("csv", "json")
    paths = [_with(folder / f"{prefix}{item.name}", ending) for ending in endings]
    if not all(path.is_file() for path in paths):
        return False
    try:
        return bool(read_json(paths[1]) == as_json(item))
    except JtransError:
        return False  # damaged: must be written again


def write_alignments(
    alignments: Sequence[tuple[str, LayerAlignment]], folder: Path, *, prefix: str = ""
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

    A line of the split is named by its number, any other sentence by its first words.
    """
    name = f"{split}-{pair.line + 1}" if pair.line is not None else _slug(pair.source)
    files = []
    for view in pair.shown:
        stem = folder / f"attention.{name}.{view.name}"
        files.append(_with(stem, "csv"))
        write_text(files[-1], weights_csv(view))
        files += draw_view(view, stem, progress)
    files.append(folder / f"attention.{name}.json")
    write_json(files[-1], pair.to_json())
    return files


def _slug(text: str) -> str:
    return "-".join(re.findall(r"\w+", text.lower()))[:STEM_LETTERS].rstrip("-") or "sentence"


def _with(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")
