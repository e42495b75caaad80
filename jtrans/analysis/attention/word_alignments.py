"""Word alignments as text, and their error rate against gold alignments.

Pharaoh format: a line per sentence, ``source-target`` pairs of word numbers from 0, ``0-0 1-2``.
Gold lines may mark possible pairs as ``1?2`` or ``1p2``; all others are sure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.lines import read_line_file
from jtrans.errors import CorpusError

WordAlignment = list[tuple[int, int]]  # of a sentence: (source word, target word)

_PAIR = re.compile(r"(\d+)([-?p])(\d+)", re.ASCII)


@dataclass(frozen=True)
class GoldAlignment:
    """Gold word pairs of a sentence: sure ones, and possible ones (the sure ones included)."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def to_pharaoh(alignment: WordAlignment) -> str:
    """Return an alignment in Pharaoh format, by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(alignment))


def from_pharaoh(line: str) -> WordAlignment:
    """Parse the output of `to_pharaoh`."""
    return [(int(i), int(j)) for i, j in (pair.split("-") for pair in line.split())]


def read_gold(
    path: Path, source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]
) -> list[GoldAlignment]:
    """Read gold alignments.

    Args:
        path: of a file with a line per sentence.
        source: source words of every sentence, to check the word numbers.
        target: target words of every sentence, likewise.

    Raises:
        CorpusError: a wrong number of lines, not Pharaoh format, or a word that does not exist.
    """
    lines = read_line_file(path)
    if len(lines) != len(source):
        raise CorpusError(
            f"{path} has {len(lines):,} lines, the split {len(source):,} sentences",
            hint="line n must hold the word alignment of sentence n",
            kind="corpus.line-counts",
        )
    return [
        _gold_line(line, f"{path}, line {number}", len(words), len(others))
        for number, (line, words, others) in enumerate(
            zip(lines, source, target, strict=True), start=1
        )
    ]


def _gold_line(line: str, where: str, source: int, target: int) -> GoldAlignment:
    sure, possible = set(), set()
    for text in line.split():
        match = _PAIR.fullmatch(text)
        if match is None:
            raise CorpusError(
                f"{text!r} is not a pair of word numbers",
                where=where,
                hint="write source-target word numbers from 0, such as 0-0 1-2",
                kind="corpus.alignment-format",
            )
        pair = (int(match[1]), int(match[3]))
        if pair[0] >= source or pair[1] >= target:
            raise CorpusError(
                f"{text} is outside the sentence of {source} source and {target} target words",
                where=where,
                hint="words are counted from 0, </s> is not counted",
                kind="corpus.alignment-range",
            )
        possible.add(pair)
        if match[2] == "-":
            sure.add(pair)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def error_rates(
    alignments: Sequence[WordAlignment], gold: Sequence[GoldAlignment]
) -> tuple[float | None, float | None, float | None]:
    """Return alignment error rate, precision and recall (Och and Ney, 2003); None for no data.

    ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``, precision over possible pairs, recall
    over sure ones.
    """
    both = [(set(pairs), reference) for pairs, reference in zip(alignments, gold, strict=True)]
    given = sum(len(pairs) for pairs, _ in both)
    sure = sum(len(reference.sure) for _, reference in both)
    in_sure = sum(len(pairs & reference.sure) for pairs, reference in both)
    in_possible = sum(len(pairs & reference.possible) for pairs, reference in both)
    return (
        1 - (in_sure + in_possible) / (given + sure) if given + sure else None,
        in_possible / given if given else None,
        in_sure / sure if sure else None,
    )
