"""Refuses test sets in XML and tables where plain text is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jtrans.errors import CorpusError
from jtrans.files.packed import fed_to, without_packing

_TEST_SET = re.compile(r"\s*<(?:\?xml|!DOCTYPE|(?:src|ref|tst)set|mteval|dataset|tmx)\b", re.I)


def check_plain(path: Path, lines: Sequence[str]) -> None:
    """Refuse a file, given with its lines, whose markup or other columns would be taken for words.

    Raises:
        CorpusError: it is a test set in XML, or a table with the ending .tsv.
    """
    if _TEST_SET.match(next((line for line in lines if line.strip()), "")):
        kind, command = "a test set in XML", r"sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p'"
    elif without_packing(path.name).endswith(".tsv") and all("\t" in line for line in lines):
        kind, command = "a table", "cut -f 2"
    else:
        return
    raise CorpusError(
        f"{path} is {kind}, not plain text",
        hint=f"extract the sentences first, for example: {fed_to(command, path)} > TEXT",
        kind="corpus.not-plain-text",
    )
