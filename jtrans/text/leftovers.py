"""Marks of processing that raw text does not have: subword pieces, escaped characters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

MANY_LINES, MANY_SHARE = 3, 0.01  # lines with marks, or their share, that cannot be an accident

BPE, SENTENCEPIECE, WORDPIECE = "BPE pieces", "SentencePiece pieces", "WordPiece pieces"
ESCAPED = "escaped characters"

# "@@" alone or inside a word is ordinary text, and so is a row of several U+2581
_PIECES = {
    BPE: re.compile(r"(?<!\S)\S*[^\s@]@@(?!\S)"),
    SENTENCEPIECE: re.compile("(?<!\\S)\u2581 ?\\w\\S*"),
    WORDPIECE: re.compile(r"(?<!\S)##\w\S*"),
}
_ESCAPED = re.compile(r"&(?:amp;)*(?:amp|lt|gt|apos|quot|bar|#39|#34|#124|#91|#93);")
ESCAPED_BY_MOSES = re.compile(r"&(?:apos|bar|#124|#91|#93);")  # the others also occur in HTML


@dataclass(frozen=True)
class Leftover:
    """Marks of one kind, and the lines that have them."""

    kind: str
    lines: int  # number of lines with a mark
    first: int  # number of the first such line, from 1
    example: str
    is_certain: bool  # too many for an accident


def find_leftover(
    lines: Sequence[str], references: Sequence[Sequence[str]] = ()
) -> Leftover | None:
    """Return marks in a hypothesis that its references do not have; None if there are none.

    Without `references`, the lines are a reference or training text, which may be about HTML: only
    escapes peculiar to Moses count.
    """
    escaped = _ESCAPED if references else ESCAPED_BY_MOSES
    for kind, pattern in {**_PIECES, ESCAPED: escaped}.items():
        marks = [set(pattern.findall(line)) for line in lines]
        expected = [[set(pattern.findall(line)) for line in text] for text in references]
        expected_counts = Counter(mark for text in expected for line in text for mark in line)
        new = [line.difference(*others) for line, *others in zip(marks, *expected, strict=True)]
        counts = Counter(mark for line in new for mark in line)
        new = [{mark for mark in line if counts[mark] > expected_counts[mark]} for line in new]
        marked = [number for number, line in enumerate(new) if line]
        if marked:
            is_many = len(marked) >= min(MANY_LINES, MANY_SHARE * len(lines))
            is_certain = is_many or max(map(len, new)) > 1
            return Leftover(kind, len(marked), marked[0] + 1, min(new[marked[0]]), is_certain)
    return None
