r"""The lines of a text file as a sequence that need not fit into memory.

Lines end at "\n" only; a "\r" before it is dropped. The other line separators of Unicode and of
terminals (U+2028, form feed, a lone "\r") occur inside sentences: tools that split at them lose
the pairing of all later lines. Here they stay in their line and are counted.
"""

from __future__ import annotations

import codecs
import itertools
import logging
import mmap
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from jtrans.errors import CorpusError, how_many
from jtrans.files import disk_errors
from jtrans.files import text as text_files
from jtrans.files.packed import PACKINGS, fed_to, read_chunks

# Separators that other tools treat as line ends, with the names shown to users.
ODD_SEPARATORS = {
    b"\x0b": "vertical tab",
    b"\x0c": "form feed",
    b"\x1c": "U+001C",
    b"\x1d": "U+001D",
    b"\x1e": "U+001E",
    b"\xc2\x85": "U+0085",
    b"\xe2\x80\xa8": "U+2028",
    b"\xe2\x80\xa9": "U+2029",
}
SCAN_BYTES = 8 << 20
BLOCK_LINES = 4096
# Unpacked text up to this size stays in memory; more goes to a temporary file.
IN_MEMORY_BYTES = 64 << 20
# A file with a larger share of lines that are not text is of another kind, and refused.
MOST_BAD = 0.5
TO_LINE_FEEDS = r"tr '\r' '\n'"  # a shell command
_log = logging.getLogger(__name__)


class _Lines(Sequence[str]):
    """The base of sequences of lines that are read a block at a time."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return one line, or a list of lines."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._block(start, stop)
            return [self[i] for i in range(start, stop, step)]
        if not -len(self) <= index < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        index %= len(self)
        return self._block(index, index + 1)[0]

    def __iter__(self) -> Iterator[str]:
        """Yield all lines, many read at a time."""
        for start in range(0, len(self), BLOCK_LINES):
            yield from self._block(start, min(start + BLOCK_LINES, len(self)))

    @abstractmethod
    def _block(self, start: int, stop: int) -> list[str]:
        """Return the lines of a range, which lies within the sequence; it may be empty."""


class LineFile(_Lines):
    """The lines of a UTF-8 file, plain or packed: checked once, decoded on access.

    Args:
        path: the file.
        skips_bad: whether lines that are not text are noted instead of refused, for the caller to
            leave them out.

    Attributes:
        path: the file.
        oddities: the number of other separators inside lines, by name.
        bad: the positions of lines that are not text, and why; filled only if `skips_bad`.

    Raises:
        CorpusError: the file is missing, a folder, not readable, damaged or not UTF-8 text, or a
            line is too long.
    """

    def __init__(self, path: Path, *, skips_bad: bool = False) -> None:
        self.path = path
        self.oddities: Counter[str] = Counter()
        self.bad: dict[int, str] = {}
        self._skips_bad = skips_bad
        self._data = _map(path)
        self._ends = self._scan()
        self._begin = len(codecs.BOM_UTF8) if self._data[:3] == codecs.BOM_UTF8 else 0

    def __len__(self) -> int:
        return len(self._ends)

    def _block(self, start: int, stop: int) -> list[str]:
        if start >= stop:
            return []
        if isinstance(self._data, mmap.mmap) and self._data.size() < len(self._data):
            raise CorpusError(  # reading on would kill the process (SIGBUS)
                f"{self.path} became shorter while it was read",
                hint="run the same command again once nothing writes to the file",
                kind="corpus.changed",
            )
        begin = int(self._ends[start - 1]) + 1 if start else self._begin
        # bad lines are not used: replacing their invalid bytes leaves all line ends in place
        errors = "replace" if self.bad else "strict"
        text = self._data[begin : int(self._ends[stop - 1])].decode("utf-8", errors)
        lines = text.split("\n")
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines

    def _scan(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Check that the file is text, count oddities, and return where each line ends, [lines]."""
        path = self.path
        if self._data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise CorpusError(
                f"{path} is UTF-16, not UTF-8",
                hint=f"convert it: {fed_to('iconv -f UTF-16 -t UTF-8', path)} > NEW",
                kind="corpus.utf16",
            )
        size, position, lines = len(self._data), 0, 0
        ends = [np.empty(0, np.int64)]
        while position < size:
            chunk = self._data[position : self._chunk_end(position, size, lines)]
            if not self._skips_bad:
                _check_text(path, chunk, lines)
            elif not _is_text(chunk):
                self._note_bad(chunk, lines)
            self._count_oddities(chunk)
            feeds = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + position
            ends.append(feeds.astype(np.int64))
            lines += len(feeds)
            position += len(chunk)
        if size and self._data[size - 1 : size] != b"\n":
            ends.append(np.array([size], np.int64))
        total = sum(map(len, ends))
        if len(self.bad) > MOST_BAD * total:
            share = f" in {len(self.bad):,} of {how_many(total, 'line')}, too many to leave out"
            _check_text(path, self._data[:], 0, share)
        if not lines and self.oddities["carriage return"] > 1:
            raise CorpusError(
                f"{path} ends its lines with carriage returns (old Mac), not line feeds",
                hint=f"convert it: {fed_to(TO_LINE_FEEDS, path)} > NEW",
                kind="corpus.line-ends",
            )
        return np.concatenate(ends)

    def _note_bad(self, chunk: bytes, lines_before: int) -> None:
        """Note which lines of a chunk are not text."""
        for position, line in enumerate(chunk.split(b"\n"), start=lines_before):
            if not _is_text(line):
                self.bad[position] = "zero byte" if b"\0" in line else "not UTF-8"

    def _chunk_end(self, position: int, size: int, lines_before: int) -> int:
        """Return the end of a line about `SCAN_BYTES` further on, so that no character is split."""
        end = position + SCAN_BYTES
        if end >= size:
            return size
        line_end = self._data.rfind(b"\n", position, end)
        if line_end < 0:
            longest = position + text_files.LONGEST_LINE
            line_end = self._data.find(b"\n", end, longest + 1)
            if line_end < 0 and longest < size:
                raise text_files.long_line(str(self.path), lines_before + 1)
        return line_end + 1 if line_end >= 0 else size

    def _count_oddities(self, chunk: bytes) -> None:
        counts = Counter({name: chunk.count(end) for end, name in ODD_SEPARATORS.items()})
        lone = chunk.count(b"\r") - chunk.count(b"\r\n") - chunk.endswith(b"\r")
        counts["carriage return"] = lone
        self.oddities += counts


class Without(_Lines):
    """A sequence of lines without those at some positions."""

    def __init__(self, lines: Sequence[str], positions: Collection[int]) -> None:
        self._lines = lines
        self._chosen = np.delete(np.arange(len(lines)), list(positions))

    def __len__(self) -> int:
        return len(self._chosen)

    def _block(self, start: int, stop: int) -> list[str]:
        if start >= stop:
            return []
        chosen = self._chosen[start:stop]
        lines = self._lines[int(chosen[0]) : int(chosen[-1]) + 1]
        return [lines[i] for i in (chosen - chosen[0]).tolist()]


class Part(_Lines):
    """Some consecutive lines of a sequence, by their positions."""

    def __init__(self, lines: Sequence[str], part: range) -> None:
        self._lines, self._part = lines, part

    def __len__(self) -> int:
        return len(self._part)

    def _block(self, start: int, stop: int) -> list[str]:
        begin = self._part.start
        return list(self._lines[begin + start : begin + stop])


class Chain(_Lines):
    """Several sequences of lines, concatenated."""

    def __init__(self, parts: Iterable[Sequence[str]]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._ends = list(itertools.accumulate(len(part) for part in self._parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[str]:
        """Yield all lines."""
        return itertools.chain.from_iterable(self._parts)

    def _block(self, start: int, stop: int) -> list[str]:
        lines: list[str] = []
        begin = 0
        for part, end in zip(self._parts, self._ends, strict=True):
            if begin < stop and start < end:
                lines += part[max(start - begin, 0) : stop - begin]
            begin = end
        return lines


def read_line_file(path: Path) -> list[str]:
    """Read all lines of a UTF-8 file, packed or not, into a list (see `LineFile`).

    Raises:
        CorpusError: the file is missing, a folder, not readable, damaged or not UTF-8 text.
    """
    return LineFile(path)[:]


def notes_of(files: Iterable[LineFile]) -> dict[str, int]:
    """Return the count of each separator inside lines of the files, as the notes of a text."""
    total = sum((file.oddities for file in files), Counter[str]())
    return {f"{name} inside a line": count for name, count in total.items()}


def one_line(text: str) -> str:
    """Put a sentence, in which some formats allow line ends, on one line."""
    return " ".join(text.split("\n")).strip() if "\n" in text else text.strip()


def _map(path: Path) -> bytes | mmap.mmap:
    """Map a file into memory; unpack a packed one first, to a temporary file if it is large."""
    _log.info("read %s", path)
    if path.suffix not in PACKINGS and path.is_file():
        try:
            with path.open("rb") as handle:
                size = handle.seek(0, 2)
                return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError:
            pass  # a file that cannot be mapped may be readable; if not, reading raises the error
    with (
        disk_errors(Path(tempfile.gettempdir())),
        tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as spool,
    ):
        lines = length = 0  # length: of the last line, so far
        for chunk in read_chunks(path):
            lines += chunk.count(b"\n")
            _, feed, rest = chunk.rpartition(b"\n")
            length = len(rest) if feed else length + len(rest)
            if length > text_files.LONGEST_LINE:  # perhaps without end, as of /dev/zero
                raise text_files.long_line(str(path), lines + 1)
            spool.write(chunk)
        size = spool.tell()
        spool.flush()
        if size <= IN_MEMORY_BYTES:
            spool.seek(0)
            return spool.read()
        return mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _check_text(path: Path, chunk: bytes, lines_before: int, share: str = "") -> None:
    """Refuse a chunk that is not text; `share` words how much of the file is not."""
    zero = chunk.find(b"\0")
    if zero >= 0:
        line = lines_before + chunk.count(b"\n", 0, zero) + 1
        raise CorpusError(
            f"{path} is binary or UTF-16, not UTF-8 text{share}: zero byte in line {line:,}",
            where=f"{path}:{line}",
            hint=f"convert it, if it is UTF-16: {fed_to('iconv -f UTF-16LE -t UTF-8', path)} > NEW",
            kind="corpus.binary",
        )
    try:
        chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + chunk.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{path} is not UTF-8 text{share}: byte 0x{chunk[error.start]:02x} in line {line:,}",
            where=f"{path}:{line}",
            hint="convert it, if it is Latin-1: "
            f"{fed_to('iconv -f ISO-8859-1 -t UTF-8', path)} > NEW "
            "(Chinese: -f GB18030 or -f BIG5)",
            kind="corpus.not-utf8",
        ) from error
