"""Word alignments as text, and how far they are from gold ones.

Pharaoh format: a line per sentence, ``source-target`` pairs of word numbers from 0, ``0-0 1-2``.
Gold lines may mark possible links as ``1?2`` or ``1p2``; all others are sure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.errors import CorpusError

Links = list[tuple[int, int]]

_LINK = re.compile(r"(\d+)([-?p])(\d+)", re.ASCII)


@dataclass(frozen=True)
class GoldSentence:
    """Gold links of a sentence: sure ones, and possible ones (the sure ones included)."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def format_links(links: Links) -> str:
    """Return links in Pharaoh format, by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def read_gold(
    path: Path, source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]
) -> list[GoldSentence]:
    """Read gold links.

    Args:
        path: of a file with a line per sentence.
        source: source words of every sentence, which links must not leave.
        target: target words, the same.

    Raises:
        CorpusError: another number of lines, no Pharaoh format, or a word that is not there.
    """
    from jtrans.corpora.lines import read_line_file

    lines = read_line_file(path)
    if len(lines) != len(source):
        raise CorpusError(
            f"{path} has {len(lines):,} lines, the split {len(source):,} sentences",
            hint="line n must hold the links of sentence n",
            kind="corpus.line-counts",
        )
    return [
        _gold_line(line, f"{path}, line {number}", len(words), len(others))
        for number, (line, words, others) in enumerate(
            zip(lines, source, target, strict=True), start=1
        )
    ]


def _gold_line(line: str, where: str, source: int, target: int) -> GoldSentence:
    sure, possible = set(), set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise CorpusError(
                f"{item!r} is no link",
                where=where,
                hint="write source-target word numbers from 0, such as 0-0 1-2",
                kind="corpus.alignment-format",
            )
        link = (int(match[1]), int(match[3]))
        if link[0] >= source or link[1] >= target:
            raise CorpusError(
                f"link {item} leaves the sentence of {source} source and {target} target words",
                where=where,
                hint="words are counted from 0, </s> is not counted",
                kind="corpus.alignment-range",
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldSentence(frozenset(sure), frozenset(possible))


def error_rates(
    links: Sequence[Links], gold: Sequence[GoldSentence]
) -> tuple[float | None, float | None, float | None]:
    """Return alignment error rate, precision and recall (Och and Ney, 2003); None for no data.

    ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``, precision over possible links, recall
    over sure ones.
    """
    given = sum(len(set(own)) for own in links)
    sure = sum(len(wanted.sure) for wanted in gold)
    pairs = [(set(own), wanted) for own, wanted in zip(links, gold, strict=True)]
    in_sure = sum(len(own & wanted.sure) for own, wanted in pairs)
    in_possible = sum(len(own & wanted.possible) for own, wanted in pairs)
    return (
        1 - (in_sure + in_possible) / (given + sure) if given + sure else None,
        in_possible / given if given else None,
        in_sure / sure if sure else None,
    )
