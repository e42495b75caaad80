"""The output of the analyses: files first, then tables or one JSON object."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.tables import print_table

if TYPE_CHECKING:
    from jtrans.analysis.attention.layer_alignments import LayerAlignment
    from jtrans.analysis.figures.results import Figure, Table
    from jtrans.analysis.study.study import Study
    from jtrans.cli.analyze.options import OutputOptions, StudyOptions

LINE = "line"  # the first column of tables that show sentences
CELL_LIMIT = 60  # characters of a sentence in a table
RECORD_LIMIT = 400  # characters of a sentence that has lines of its own


def show(
    analysis: str,
    options: StudyOptions,
    study: Study,
    items: Sequence[Figure | Table],
    output: OutputOptions,
    *,
    alignments: Sequence[tuple[str, LayerAlignment]] = (),
) -> None:
    """Write the files, then print the tables or the JSON object."""
    from jtrans.analysis.figures.results import as_json
    from jtrans.analysis.output.files import remove_renumbered, write_alignments, write_results

    for warning in study.warnings:
        console.warn(warning)
    folder = output.folder(study)
    files = write_results(items, folder, prefix=f"{study.split}.")
    remove_renumbered(items, folder, prefix=f"{study.split}.")
    files += write_alignments(alignments, folder, prefix=f"{study.split}.")
    if output.as_json:
        console.print_json(
            {
                "analysis": analysis,
                "split": study.split,
                "sentences": len(study),
                "references": len(study.text.references),
                "lowercase": study.lowercase,
                "systems": [
                    {"name": subject.name, "runs": [run.folder.as_posix() for run in subject.runs]}
                    for subject in study.subjects
                ],
                "results": [as_json(item) for item in items],
                "warnings": study.warnings,
                "files": [path.as_posix() for path in files],
            }
        )
        return
    for number, item in enumerate(items):
        print_item(item, is_first=number == 0)
    console.say("Written", f"{len(files)} files in {folder}")
    names = [run.with_chosen(run.folder.as_posix()) for run in study.runs]
    console.next_step(f"jtrans analyze report {shlex.join([*names, *options.given()])}")


def print_item(item: Figure | Table, *, is_first: bool) -> None:
    """Write a figure's numbers or a table to stdout, below a blank line unless it is the first."""
    from jtrans.analysis.figures.results import Figure
    from jtrans.analysis.output.tables import numeric_columns, shown_table

    if not is_first:
        print()
    print(f"{item.title}: {item.question}" if isinstance(item, Figure) else item.title)
    columns, rows = shown_table(item)
    if not rows:
        print("no data")
        return
    numeric = numeric_columns(item)
    if columns[0] == LINE and not console.is_plain(sys.stdout):
        _print_records(columns, rows, numeric)
        return
    words = {name for name, is_number in zip(columns, numeric, strict=True) if not is_number}
    right = [name for name in columns[1:] if name not in words]
    print_table(columns, [[_cut(cell) for cell in row] for row in rows], right=right)


def _print_records(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> None:
    """Print each row as a table of its own, whose texts would be too narrow side by side."""
    for row in rows:
        cells = list(zip(columns, row, numeric, strict=True))
        first, *numbers = [f"{name} {cell}" for name, cell, is_number in cells if is_number]
        texts = [
            [name, _cut(cell, RECORD_LIMIT)] for name, cell, is_number in cells if not is_number
        ]
        print()
        print_table([first, ", ".join(numbers)], texts)


def _cut(text: str, limit: int = CELL_LIMIT) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
