"""Files whose line n belongs to sentence n."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.lines import read_line_file
from jtrans.corpora.plain_text import check_plain
from jtrans.decoding.lines.given import best_texts
from jtrans.decoding.lines.json_lines import source_texts
from jtrans.errors import CorpusError, how_many


def read_aligned(names: Sequence[str], *, source: int | None) -> list[list[str]]:
    """Read files, which must all have as many lines as the first.

    Of lines that `jtrans translate --format jsonl` wrote, the best translations are taken.

    Args:
        names: the files.
        source: the position of the file whose JSON lines are read for their sources, if any.

    Raises:
        CorpusError: a file cannot be read, is empty, or has another number of lines; or JSON lines
            have no translation, or no source.
    """
    return [
        (source_texts if place == source else best_texts)(lines, name)
        for place, (name, lines) in enumerate(zip(names, aligned_lines(names), strict=True))
    ]


def aligned_lines(names: Sequence[str]) -> list[list[str]]:
    """Read files as `read_aligned` does, but leave JSON lines as they are.

    Raises:
        CorpusError: a file cannot be read, is empty, has another number of lines, or is a test set
            in XML or a table.
    """
    texts: list[list[str]] = []
    for name in names:
        texts.append(list(read_line_file(Path(name))))
        if not texts[-1]:
            hint = "name a file with one line per sentence"
            raise CorpusError(f"{name} is empty", hint=hint, kind="corpus.empty")
        check_plain(Path(name), texts[-1])
        if len(texts[-1]) != len(texts[0]):
            raise CorpusError(
                f"{name} has {how_many(len(texts[-1]), 'line')}, {names[0]} has {len(texts[0]):,}",
                hint="line n of every file must belong to the same sentence",
                kind="corpus.line-counts",
            )
    return texts
