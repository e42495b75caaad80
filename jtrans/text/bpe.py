"""Byte pair encoding (Sennrich et al., 2016) as in subword-nmt: same codes, same pieces.

Every piece of a word but the last ends in ``@@``.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import IO

from jtrans.errors import CorpusError, how_many
from jtrans.files import open_unpacked, raw_lines
from jtrans.files.packed import NOT_READ
from jtrans.text.bpe_learning import END, learn_merges, merge_pair

MARK = "@@"
_OF_FASTBPE = re.compile(r"has 3 units instead of 2: '\S+ \S+ \d+'$")  # the third is a count
_ADDING_VERSION = "(echo '#version: 0.2'"
_CACHE_LIMIT = 500_000  # words: it bounds the memory of servers


def count_words(lines: Iterable[Iterable[str]]) -> Counter[str]:
    """Count the words of segmented lines."""
    return Counter(chain.from_iterable(lines))


def learn(counts: Iterable[Mapping[str, int]], merges: int, *, min_frequency: int = 2) -> str:
    """Learn merges and return the text of the codes file, byte for byte that of subword-nmt.

    Args:
        counts: word counts (`count_words`), one mapping for each text; two for joint BPE.
        merges: how many to learn; fewer are returned when nothing is left to merge.
        min_frequency: stop when the most frequent pair is rarer than this.

    Raises:
        CorpusError: there is nothing to merge.
    """
    total = Counter[str]()
    for mapping in counts:
        total.update(mapping)
    if not any(len(word) > 1 for word in total):
        raise CorpusError(
            "there is nothing to learn BPE from: no word has two characters",
            hint="give text with words, or choose no BPE (--bpe none)",
            kind="corpus.empty",
        )
    learned = learn_merges(total, merges, min_frequency=min_frequency)
    if not learned:
        raise CorpusError(
            f"no pair of characters occurs {how_many(min_frequency, 'time')}: "
            "no BPE merge was learned",
            hint="give more text, lower --bpe-min-frequency, or choose no BPE (--bpe none)",
            kind="corpus.too-small",
        )
    return "#version: 0.2\n" + "".join(f"{first} {second}\n" for first, second in learned)


def count_merges(codes: str) -> int:
    """Return how many merges a codes text holds, without its version line."""
    lines = codes.rstrip("\n").split("\n")
    return len([line for line in lines if line]) - lines[0].startswith("#version:")


def check_codes(codes: str, where: str | None = None) -> None:
    """Check that a text is a BPE codes file.

    Raises:
        CorpusError: it is not; the error names the line.
    """
    fault = _find_fault(codes.rstrip("\n").split("\n"))
    if fault is not None:
        hint = "learn codes with: jtrans bpe learn --merges 10000 --input FILE --output CODES"
        if _OF_FASTBPE.search(fault):
            hint = f"if fastBPE wrote it: {_ADDING_VERSION}; cut -d' ' -f1,2 FILE) > CODES"
        raise CorpusError(fault, where=where, hint=hint, kind="corpus.codes")


def check_version(codes: str, where: str) -> None:
    """Refuse codes of version 0.2 without their version line: they would be read as 0.1.

    In 0.1 the end of a word is a symbol of its own until a merge adds it to another.

    Raises:
        CorpusError: a merge is impossible in version 0.1.
    """
    if codes.startswith("#version:"):
        return
    known = {END}
    for number, line in enumerate(codes.splitlines(), start=1):
        units = line.split(" ")
        if new := [unit for unit in units if unit.endswith(END) and unit not in known]:
            raise CorpusError(
                f"codes without a version line, but not of version 0.1: no merge before line "
                f"{number} makes {new[0]}",
                where=where,
                hint=f"add the version: {_ADDING_VERSION}; cat FILE) > CODES",
                kind="corpus.codes",
            )
        known.add("".join(units))


def _find_fault(lines: Sequence[str]) -> str | None:
    first = int(lines[0].startswith("#version:"))
    if first and lines[0].split() not in (["#version:", "0.1"], ["#version:", "0.2"]):
        return f"BPE codes of unknown version: {lines[0][:60]!r}; jtrans reads 0.1 and 0.2"
    if not lines[first:]:
        return "BPE codes without merges: the file has only a line with the version"
    for number, line in enumerate(lines[first:], start=first + 1):
        units = line.strip("\r\n ").split(" ")
        if len(units) != 2:
            count = len([unit for unit in units if unit])
            return (
                f"not a BPE codes file: line {number} has {count} units instead of 2: {line[:60]!r}"
            )
    return None


def read_codes(path: Path) -> str:
    """Read and check a BPE codes file.

    Raises:
        CorpusError: it is missing, not UTF-8, or not a codes file.
    """
    codes = "".join(_file_lines(path)).removeprefix("\ufeff")
    check_codes(codes, str(path))
    return codes


def _file_lines(path: Path) -> Iterator[str]:
    """Yield the `text_lines` of a file, which may be packed.

    Raises:
        CorpusError: it is missing, a folder, not readable, damaged, or not UTF-8.
    """
    with open_unpacked(path) as stream:
        yield from text_lines(stream, str(path))


def text_lines(handle: IO[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream with their line ends, split where subword-nmt splits them.

    That is, at every Unicode line boundary (`str.splitlines`), not only at newlines.

    Raises:
        CorpusError: a line is not UTF-8, or too long; the error names it.
    """
    for number, raw in enumerate(raw_lines(handle, name), start=1):
        try:
            yield from raw.decode("utf-8").splitlines(keepends=True)
        except UnicodeDecodeError as error:
            is_packed = name.endswith(NOT_READ)
            convert = "convert it first, for example: iconv -f LATIN1 -t UTF-8 < FILE > NEW"
            raise CorpusError(
                f"{name} is not UTF-8: byte 0x{raw[error.start]:02x}",
                where=f"line {number}",
                hint="unpack it first; .gz, .xz and .zst are read as they are"
                if is_packed
                else convert,
                kind="corpus.encoding",
            ) from error


def count_file(path: Path) -> Counter[str]:
    """Count the space-separated words of a text file, as subword-nmt does.

    Raises:
        CorpusError: it is missing or not UTF-8.
    """
    from subword_nmt.learn_bpe import get_vocabulary

    return Counter(get_vocabulary(_file_lines(path)))


class Bpe:
    """Applies learned merges to words, and undoes them.

    Args:
        codes: the text of a codes file.
        known: the pieces of a vocabulary: unknown pieces are split into smaller ones where
            possible, as by subword-nmt's `apply-bpe --vocabulary`; None keeps them.

    Raises:
        CorpusError: the text is not a codes file.
    """

    def __init__(self, codes: str, known: Container[str] | None = None) -> None:
        from subword_nmt.apply_bpe import BPE

        check_codes(codes)
        self._library = BPE(io.StringIO(codes))
        self._known = known
        self._ranks: dict[tuple[str, str], int] = self._library.bpe_codes
        self._merges = {rank: pair for pair, rank in self._ranks.items()}
        self._has_own_end = self._library.version == (0, 1)
        self._cache: dict[str, tuple[str, ...]] = {}

    def pieces(self, words: Iterable[str]) -> list[str]:
        """Split words into pieces, so that `undo` returns the same words.

        The pieces are those of subword-nmt, except where `undo` could not restore the word: if the
        last piece of a word ends in the mark itself, its last character is split off (``a@@``
        becomes ``a@@@ @``).
        """
        pieces: list[str] = []
        for word in words:
            pieces.extend(self._cache.get(word) or self._split_word(word))
        return pieces

    def undo(self, pieces: Sequence[str]) -> list[str]:
        """Merge pieces into words; an unfinished last word is kept."""
        words: list[str] = []
        start = ""
        for piece in pieces:
            if piece.endswith(MARK):
                start += piece[: -len(MARK)]
            else:
                words.append(start + piece)
                start = ""
        return [*words, start] if start else words

    def apply(self, line: str) -> str:
        """Split the words of a line as `subword-nmt apply-bpe` does, byte for byte."""
        if len(self._library.cache) >= _CACHE_LIMIT:  # of a stream without end
            self._library.cache.clear()
        return str(self._library.process_line(line))

    def draw(
        self, word: str, rate: float, random: Random, known: Container[str] | None = None
    ) -> tuple[str, ...]:
        """Split a word with randomly dropped merges (BPE-dropout, Provilkov et al., 2020).

        Args:
            word: not empty.
            rate: the probability that a possible merge is dropped, drawn again in every round.
            random: the random number generator.
            known: the pieces of a vocabulary; merges into unknown pieces are undone where possible.
        """
        symbols = self._symbols(word)
        while len(symbols) > 1:
            possible = [
                (self._ranks[pair], i)
                for i, pair in enumerate(pairwise(symbols))
                if pair in self._ranks and random.random() >= rate
            ]
            if not possible:
                break
            rank, done = min(possible)[0], 0
            parts: list[str] = []
            for i in (i for other, i in possible if other == rank):
                if i >= done:  # in x x x the second pair overlaps the first
                    parts += [*symbols[done:i], "".join(self._merges[rank])]
                    done = i + 2
            symbols = (*parts, *symbols[done:])
        return self._marked(symbols if known is None else self._spelled(symbols, known))

    def _spelled(self, symbols: tuple[str, ...], known: Container[str]) -> tuple[str, ...]:
        """Undo merges of unknown symbols until they are known pieces, or single characters."""
        last = len(symbols) - 1
        return tuple(
            part
            for i, symbol in enumerate(symbols)
            for part in self._known_parts(symbol, known, is_last=i == last)
        )

    def _known_parts(self, symbol: str, known: Container[str], *, is_last: bool) -> list[str]:
        """Undo merges of a symbol until all its parts are known pieces."""
        piece = symbol.removesuffix(END) if is_last else symbol + MARK
        halves = None if piece in known else self._halves.get(symbol)
        # a word may contain "</w>" itself, and merges of its characters are not the word's end
        if halves is None or (is_last and not halves[1].endswith(END)):
            return [symbol]
        return [
            *self._known_parts(halves[0], known, is_last=False),
            *self._known_parts(halves[1], known, is_last=is_last),
        ]

    @cached_property
    def _halves(self) -> dict[str, tuple[str, str]]:
        """The pair that each symbol was first merged from."""
        return {"".join(pair): pair for _, pair in sorted(self._merges.items(), reverse=True)}

    def _split_word(self, word: str) -> tuple[str, ...]:
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        symbols = self._symbols(word) if word else ()
        ranks = self._ranks
        while len(symbols) > 1:
            possible = [ranks[pair] for pair in pairwise(symbols) if pair in ranks]
            if not possible:
                break
            first, second = self._merges[min(possible)]
            symbols = merge_pair(symbols, first, second, first + second)
        if self._known is not None:
            symbols = self._spelled(symbols, self._known)
        pieces = self._cache[word] = self._marked(symbols) if word else ()
        return pieces

    def _symbols(self, word: str) -> tuple[str, ...]:
        if self._has_own_end:
            return (*word, END) if len(word) > 1 else (word,)
        return (*word[:-1], word[-1] + END) if len(word) > 1 else (word,)

    def _marked(self, symbols: tuple[str, ...]) -> tuple[str, ...]:
        """Remove the end symbol of the word, and mark all pieces but the last."""
        if symbols[-1] == END and len(symbols) > 1:
            *inner, last = symbols[:-1]
        else:
            *inner, last = *symbols[:-1], symbols[-1].removesuffix(END)
        if last.endswith(MARK):
            inner, last = [*inner, last[:-1]], last[-1]
        return (*(piece + MARK for piece in inner), last)
