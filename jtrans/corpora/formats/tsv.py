"""Tab-separated files: one pair per line, columns for source and target, no quoting."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from jtrans.corpora.formats.sides import named_sides
from jtrans.corpora.lines import LineFile, notes_of
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError, how_many

# The hint about lines that are not pairs.
COLUMNS = "separate columns by tabs: source, then target, or as named in line 1"


def read_tsv(
    path: Path,
    languages: tuple[str, str],
    *,
    columns: tuple[int, int] | None = None,
    skips_bad: bool = False,
) -> ParallelText:
    """Read a TSV file; blank lines are ignored.

    Args:
        path: the file, plain or packed.
        languages: source and target. A first line that names both, with any region and in any
            case, or has "source" and "target" or "src" and "tgt", is a heading, and gives their
            columns.
        columns: columns of source and target, from 0; by default as in the heading, else 0 and 1.
        skips_bad: whether bad lines are left out and counted.

    Raises:
        CorpusError: the file cannot be read, is empty, or a line has too few columns.
    """
    lines = LineFile(path, skips_bad=skips_bad)
    skipped = Counter(lines.bad.values())
    good = (number for number in range(len(lines)) if number not in lines.bad)
    begin = next((number for number in good if lines[number].strip()), len(lines))
    heading = [cell.strip() for cell in lines[begin].split("\t")] if begin < len(lines) else []
    if columns is None and (named := named_sides(tuple(heading), languages, mixed=True)):
        columns, begin = named[0], begin + 1
    columns = columns or (0, 1)
    source, target = [], []
    for number in range(begin, len(lines)):
        if number in lines.bad:
            continue
        cells = lines[number].split("\t")
        if len(cells) > max(columns):
            source.append(cells[columns[0]].strip())
            target.append(cells[columns[1]].strip())
        elif len(cells) == 1 and not cells[0].strip():
            continue  # a blank line
        elif skips_bad:
            skipped["too few columns"] += 1
        else:
            raise CorpusError(
                f"{path} has {how_many(len(cells), 'column')} in line {number + 1:,}, "
                f"{max(columns) + 1} are needed",
                where=f"{path}:{number + 1}",
                hint=COLUMNS,
                kind="corpus.columns",
            )
    if not source:
        raise CorpusError(f"{path} holds no pairs", hint=COLUMNS, kind="corpus.empty")
    notes = notes_of([lines])
    if quoted := sum(map(_is_quoted, [*source, *target])):
        notes["cell quoted as by a spreadsheet (quotes kept; export without them)"] = quoted
    return ParallelText(source, target, (str(path),), notes=notes, skipped=skipped)


def _is_quoted(cell: str) -> bool:
    """Return whether a cell is certainly quoted: within quotes, and all quotes in it doubled."""
    inner = cell[1:-1]
    is_enclosed = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return is_enclosed and '""' in inner and '"' not in inner.replace('""', "")
