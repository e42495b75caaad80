"""Gold word alignments in the formats they are published in, and error rates against them.

- Pharaoh: a line per sentence, pairs of word numbers from 0 (or from 1, with base 1): ``0-0 1-2``;
  an empty line for a sentence without gold.
  Possible pairs are ``1?2``, ``1p2``, ``1-2/P`` or ``1-2 P``; others are sure.
- NAACL (WPT 2003): a line per pair, ``SENTENCE SOURCE TARGET [S|P]``, all numbers from 1, word 0
  for NULL. A confidence after the label is ignored.
- Och: ``SENT: 1``, then a line per pair, ``S 1 1`` or ``P 2 3``, numbers from 1.

Links to NULL are left out, as usual: systems are scored on links between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jtrans.corpora.lines import read_line_file
from jtrans.errors import CorpusError, how_many

if TYPE_CHECKING:
    from jtrans.text.alignments import WordAlignment

_PHARAOH = re.compile(r"(\d{1,9}|NULL)([-?p])(\d{1,9}|NULL)(?:[/:]?([SP]))?", re.ASCII)
_NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?", re.ASCII)
_OCH = re.compile(r"([SP])\s+(\d{1,9})\s+(\d{1,9})", re.ASCII)
_LABEL = re.compile(r"(?<=\d)\s+([SP])(?!\S)")  # "1-2 P" is one pair
_SENTENCE = re.compile(r"SENT:\s*(\d{1,9})", re.ASCII)
ENOUGH = 5  # sentences with links: at least one of them surely links its first word


@dataclass(frozen=True)
class GoldAlignment:
    """Gold word pairs of a sentence: sure ones, and possible ones (the sure ones included)."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def error_rates(
    alignments: Sequence[WordAlignment], gold: Sequence[GoldAlignment | None]
) -> tuple[float | None, float | None, float | None]:
    """Return alignment error rate, precision and recall (Och and Ney, 2003); None for no data.

    ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``, precision over possible pairs, recall
    over sure ones. Sentences without gold are left out.
    """
    both = [(set(p), g) for p, g in zip(alignments, gold, strict=True) if g is not None]
    aligned = sum(len(pairs) for pairs, _ in both)
    sure = sum(len(reference.sure) for _, reference in both)
    in_sure = sum(len(pairs & reference.sure) for pairs, reference in both)
    in_possible = sum(len(pairs & reference.possible) for pairs, reference in both)
    return (
        1 - (in_sure + in_possible) / (aligned + sure) if aligned + sure else None,
        in_possible / aligned if aligned else None,
        in_sure / sure if sure else None,
    )


class _Link(NamedTuple):
    line: int  # of the file, from 1
    text: str
    sentence: int | None  # its number in the file; None: that of the line
    words: tuple[str, str]  # source and target, as in the file
    is_sure: bool
    null: str = "NULL"  # how NULL is written in formats that count words from 1

    def numbers(self, first: int) -> list[int | None]:
        """Return the numbers of both words, counted from 0; None for NULL.

        Args:
            first: the number of the first word in the file.
        """
        nulls = ("NULL", self.null if first else "NULL")
        return [None if word in nulls else int(word) - first for word in self.words]

    def fits(self, sizes: tuple[int, int], first: int) -> bool:
        """Return whether a sentence pair with these numbers of words has both words."""
        pairs = zip(self.numbers(first), sizes, strict=True)
        return all(word is None or 0 <= word < size for word, size in pairs)


def read_gold(
    path: Path,
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    base: int | None = None,
) -> list[GoldAlignment | None]:
    """Read gold alignments; None for each sentence whose line is empty, or that has no number.

    Args:
        path: a file in one of the formats.
        source: source words of every sentence, to check the word numbers.
        target: target words of every sentence.
        base: the number of the first word, and of the first sentence where these are numbered;
            None: 0 for Pharaoh, else 1.

    Raises:
        CorpusError: a wrong number of lines, another format, or a link to a word out of range.
    """
    lines = read_line_file(path)
    links = list(_links(lines, path))
    is_numbered = any(link.sentence is not None for link in links)
    if not is_numbered and len(lines) != len(source):
        raise CorpusError(
            f"{path} has {how_many(len(lines), 'line')}, "
            f"the split {how_many(len(source), 'sentence')}",
            hint="line n must hold the word alignment of sentence n, and be empty if it has none: "
            "such sentences are left out",
            kind="corpus.line-counts",
        )
    first = int(is_numbered) if base is None else base
    if base is None and not is_numbered:
        _check_base(links, path)
    possible: list[set[tuple[int, int]] | None] = [None for _ in source]
    sure: list[set[tuple[int, int]]] = [set() for _ in source]
    for link in links:
        number = link.line - 1 if link.sentence is None else link.sentence - first
        is_inside = 0 <= number < len(source) and (link.sentence is not None) == is_numbered
        sizes = (len(source[number]), len(target[number])) if is_inside else None
        if sizes is None or not link.fits(sizes, first):
            raise CorpusError(
                f"{link.text} is outside the sentence of {sizes[0]} source and {sizes[1]} "
                "target words"
                if sizes
                else f"{link.text} is not in the split of {how_many(len(source), 'sentence')}",
                where=f"{path}, line {link.line}",
                hint=f"words are counted from {first}, </s> is not counted; "
                f"--gold-base {1 - first} counts from {1 - first}",
                kind="corpus.alignment-range",
            )
        allowed = possible[number] = possible[number] or set()
        source_word, target_word = link.numbers(first)
        if source_word is not None and target_word is not None:
            allowed.add((source_word, target_word))
            if link.is_sure:
                sure[number].add((source_word, target_word))
    return [
        None if allowed is None else GoldAlignment(frozenset(sure[number]), frozenset(allowed))
        for number, allowed in enumerate(possible)
    ]


def _links(lines: Sequence[str], path: Path) -> Iterator[_Link]:
    """Yield the links of a file in any of the formats."""
    sentence = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if match := _SENTENCE.fullmatch(text):
            sentence = int(match[1])
        elif match := _NAACL.fullmatch(text):
            words = match[2].lstrip("0") or "0", match[3].lstrip("0") or "0"
            yield _Link(number, text, int(match[1]), words, match[4] != "P", "0")
        elif sentence is not None and (match := _OCH.fullmatch(text)):
            yield _Link(number, text, sentence, (match[2], match[3]), match[1] == "S")
        else:
            for pair in _LABEL.sub(r"/\1", text).split():
                match = _PHARAOH.fullmatch(pair)
                if match is None:
                    raise CorpusError(
                        f"{pair[:40]!r} is not a pair of word numbers",
                        where=f"{path}, line {number}",
                        hint="write source-target word numbers from 0, such as 0-0 1-2",
                        kind="corpus.alignment-format",
                    )
                is_sure = match[2] == "-" and match[4] != "P"
                yield _Link(number, pair, None, (match[1], match[3]), is_sure)


def _check_base(links: Sequence[_Link], path: Path) -> None:
    """Refuse a file in which no word has the number 0: it seems to count from 1."""
    if len({link.line for link in links}) >= ENOUGH and all("0" not in k.words for k in links):
        raise CorpusError(
            f"no link in {path} has a word 0: it seems to count words from 1",
            where=f"{path}, line {links[0].line}",
            hint="--gold-base 1 counts words from 1; --gold-base 0 from 0",
            kind="corpus.alignment-base",
        )
