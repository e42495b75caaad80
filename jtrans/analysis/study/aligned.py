"""Files of which line n belongs to sentence n."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jtrans.corpora.lines import read_line_file
from jtrans.decoding.lines.json_lines import best_texts, source_texts
from jtrans.errors import CorpusError, how_many
from jtrans.files.packed import fed_to, without_packing

_TEST_SET = re.compile(r"\s*<(?:\?xml|!DOCTYPE|(?:src|ref|tst)set|mteval|dataset|tmx)\b", re.I)


def read_aligned(names: Sequence[str], *, source: int | None) -> list[list[str]]:
    """Read files, which must all have as many lines as the first.

    Of lines that `jtrans translate --format jsonl` wrote, the best translations are taken.

    Args:
        names: the files.
        source: the place of the one whose JSON lines are read for their sources; None: of none.

    Raises:
        CorpusError: a file cannot be read, is empty, or has another number of lines; or JSON lines
            have no translation, or no source.
    """
    return [
        (source_texts if place == source else best_texts)(lines, name)
        for place, (name, lines) in enumerate(zip(names, aligned_lines(names), strict=True))
    ]


def aligned_lines(names: Sequence[str]) -> list[list[str]]:
    """Do the same, but leave all lines as they are.

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
        _check_plain(name, texts[-1])
        if len(texts[-1]) != len(texts[0]):
            raise CorpusError(
                f"{name} has {how_many(len(texts[-1]), 'line')}, {names[0]} has {len(texts[0]):,}",
                hint="line n of every file must belong to the same sentence",
                kind="corpus.line-counts",
            )
    return texts


def _check_plain(name: str, lines: Sequence[str]) -> None:
    """Refuse a file whose markup or other columns would be taken for words."""
    path = Path(name)
    if _TEST_SET.match(next((line for line in lines if line.strip()), "")):
        kind, command = "a test set in XML", r"sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p'"
    elif without_packing(path.name).endswith(".tsv") and all("\t" in line for line in lines):
        kind, command = "a table", "cut -f 2"
    else:
        return
    raise CorpusError(
        f"{name} is {kind}, not plain text",
        hint=f"take out the sentences first, for example: {fed_to(command, path)} > TEXT",
        kind="corpus.not-plain-text",
    )
