"""The output of the analyses: files first, then tables or one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jtrans.cli import console

if TYPE_CHECKING:
    from jtrans.analysis.attention.layer_alignments import LayerAlignment
    from jtrans.analysis.figures.results import Figure, Table
    from jtrans.analysis.study.study import Study
    from jtrans.cli.analyze.options import OutputOptions

CELL_LIMIT = 60  # characters of a sentence in a table on the terminal


def show(
    analysis: str,
    study: Study,
    items: Sequence[Figure | Table],
    output: OutputOptions,
    *,
    alignments: Sequence[tuple[str, LayerAlignment]] = (),
) -> None:
    """Write the files, then print the tables or the JSON object."""
    from jtrans.analysis.figures.results import as_json
    from jtrans.analysis.output.files import write_alignments, write_results

    for warning in study.warnings:
        console.warn(warning)
    folder = output.folder(study)
    files = write_results(items, folder, prefix=f"{study.split}.")
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
        _print(item, first=number == 0)
    console.talk(f"{'Written':<12} {len(files)} files in {folder}")
    names = " ".join(run.folder.as_posix() for run in study.runs)
    console.next_step(f"jtrans analyze report {names}")


def _print(item: Figure | Table, *, first: bool) -> None:
    from jtrans.analysis.figures.results import Figure
    from jtrans.analysis.output.tables import is_numeric, shown_table

    if not first:
        print()
    print(f"{item.title}: {item.question}" if isinstance(item, Figure) else item.title)
    columns, rows = shown_table(item)
    if not rows:
        print("no data")
        return
    numeric = [is_numeric(cells) for cells in zip(*rows, strict=True)]
    right = [name for name, is_number in zip(columns[1:], numeric[1:], strict=True) if is_number]
    console.print_table(columns, [[_cut(cell) for cell in row] for row in rows], right=right)


def _cut(text: str) -> str:
    return text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 3] + "..."
