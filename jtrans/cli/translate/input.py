"""Lines to translate: from a file, typed at a prompt, or from a pipe as they arrive."""

from __future__ import annotations

import itertools
import queue
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from jtrans.cli.translate.lines import until_refused
from jtrans.cli.translate.output import is_ordinary
from jtrans.errors import CorpusError, JtransError
from jtrans.files import raw_lines
from jtrans.files.packed import without_packing

# The lines of a chunk are translated by length, and written together.
CHUNK_LINES = 2048
# How long a chunk waits for one more line from a pipe, and in total. Somebody may be waiting for a
# single line, which a small model translates in 20 ms.
NEXT_LINE_SECONDS = 0.005
CHUNK_SECONDS = 0.05
STANDARD_INPUT = "standard input"
_END = b""


def check_outputs(
    inputs: Iterable[tuple[str, str | None]], outputs: Mapping[str, str | None]
) -> None:
    """Refuse outputs that are folders, have a compressed name, or are named by another option, too.

    The temporary files beside an output count as well (`_written`).

    Args:
        inputs: files to read, each after the option that names it; None and ``-`` are no files.
        outputs: files to write, by the options that name them.

    Raises:
        JtransError: an option names a folder or a packed file, or two options name the same file.
    """
    earlier = [(option, [name]) for option, name in inputs if name is not None]
    for option, name in outputs.items():
        if name is None:
            continue
        if Path(name).is_dir():
            raise JtransError(
                f"cannot write {name or repr(name)}: is a directory",
                where=option,
                hint="choose another path",
                kind="disk.not-a-folder",
            )
        if (plain := without_packing(name)) != name:
            raise JtransError(
                f"the output is plain text, and {name} would be read as compressed",
                where=option,
                hint=f"{option} {shlex.quote(plain)}, and compress it afterwards",
                kind="command.packed-output",
            )
        for other, taken in earlier:
            same = (file for file in taken if any(_is_same_file(file, x) for x in _written(name)))
            if (file := next(same, None)) is not None:
                raise JtransError(
                    f"{other} and {option} name the same file: {file}",
                    where=option,
                    hint=f"give {option} another file: it is replaced by the result",
                    kind="command.same-file",
                )
        earlier.append((option, _written(name)))


def _written(name: str) -> list[str]:
    """Return an output file, and the files that exist beside it while it is written.

    These are the lines so far with their state (`jtrans.decoding.partial_output`), and the lock.
    """
    if name == "-" or not is_ordinary(name):
        return [name]
    return [name, *(f"{name}.{end}" for end in ("part", "part.json", "lock", "lock.json"))]


def _is_same_file(first: str, second: str) -> bool:
    """Return whether two names are of the same plain file, which need not exist yet."""
    if "-" in (first, second):
        return False
    paths = [Path(name) for name in (first, second)]
    if any(path.exists() and not path.is_file() for path in paths):
        return False  # a device or a named pipe
    return paths[0].resolve() == paths[1].resolve()


class LineInput:
    """Chunks of raw lines, read once.

    A file is checked as a whole first, so that a bad one is refused at once, then read piece by
    piece. A pipe is streamed: the lines that have arrived form a chunk, so that output is prompt
    for a slow writer, too.

    Args:
        name: a path, or ``-`` for standard input.

    Raises:
        CorpusError: the file is missing, not UTF-8 text, a test set in XML or a table.
    """

    def __init__(self, name: str) -> None:
        self.name = STANDARD_INPUT if name == "-" else name
        self.first = 0  # the number of the next line
        self.is_prompt = name == "-" and sys.stdin.isatty()
        self.lines: Sequence[str] | None = None
        if name != "-":
            from jtrans.corpora.lines import LineFile
            from jtrans.corpora.plain_text import check_plain

            self.lines = LineFile(Path(name))
            check_plain(Path(name), self.lines)

    @property
    def total(self) -> int | None:
        """The number of lines, None if unknown."""
        return None if self.lines is None else len(self.lines)

    def take_shard(self, text: str) -> range:
        """Keep part K of N for the text ``K/N``, and return the numbers of its lines, from 0.

        Raises:
            CorpusError: the text is not of this form, or the input is not a file.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        number, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= count:
            raise CorpusError(
                f"needs K/N with 1 <= K <= N, not {text!r}",
                where="--shard",
                hint="--shard 1/4 is the first of four parts; join the outputs with cat",
                kind="corpus.shard",
            )
        if self.lines is None:
            raise CorpusError(
                "standard input cannot be divided: its length is not known",
                where="--shard",
                hint="--input FILE",
                kind="corpus.shard",
            )
        total = len(self.lines)
        part = range((number - 1) * total // count, number * total // count)
        self._keep(self.lines, part)
        return part

    def skip(self, count: int) -> None:
        """Skip the first `count` lines of a file."""
        if self.lines is not None:
            self._keep(self.lines, range(count, len(self.lines)))

    def _keep(self, lines: Sequence[str], part: range) -> None:
        from jtrans.corpora.lines import Part

        self.first, self.lines = self.first + part.start, Part(lines, part)

    def chunks(self, size: int = CHUNK_LINES) -> Iterator[list[str]]:
        """Yield the lines in chunks; those of a file have `size` lines.

        Raises:
            CorpusError: a line from a pipe or terminal is not UTF-8 text, or cannot be read; the
                lines before it have been yielded.
        """
        if self.lines is not None:
            for start in range(0, len(self.lines), size):
                yield list(self.lines[start : start + size])
        elif self.is_prompt:
            yield from _typed()
        else:
            first = 1
            for chunk in _piped(sys.stdin.buffer):
                texts, fault = until_refused(_decoded, chunk, first)
                if texts:
                    yield texts
                if fault:
                    raise fault
                first += len(chunk)


def _typed() -> Iterator[list[str]]:
    """Prompt for lines on a terminal and yield each, until end of file (Ctrl-D)."""
    lines = raw_lines(sys.stdin.buffer, STANDARD_INPUT)
    for number in itertools.count(1):
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(lines, _END)
        if not line:
            print(file=sys.stderr)
            return
        yield [_decoded(line, number)]


def _piped(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that have arrived since the last chunk, at most a full chunk."""
    lines: queue.Queue[bytes] = queue.Queue(maxsize=2 * CHUNK_LINES)
    faults: list[OSError | CorpusError] = []
    threading.Thread(target=_fill, args=(stream, lines, faults), daemon=True).start()
    while (line := lines.get()) != _END:
        chunk, until = [line], time.monotonic() + CHUNK_SECONDS
        try:
            while len(chunk) < CHUNK_LINES:
                left = until - time.monotonic()
                line = lines.get(timeout=max(0.0, min(left, NEXT_LINE_SECONDS)))
                if line == _END:
                    break
                chunk.append(line)
        except queue.Empty:
            pass
        yield chunk
        if line == _END:
            break
    for fault in faults:
        if isinstance(fault, CorpusError):
            raise fault
        raise CorpusError(
            f"standard input cannot be read: {fault.strerror}",
            hint="--input FILE, or a pipe",
            kind="corpus.unreadable",
        ) from fault


def _fill(stream: BinaryIO, lines: queue.Queue[bytes], faults: list[OSError | CorpusError]) -> None:
    try:
        for line in raw_lines(stream, STANDARD_INPUT):
            lines.put(line)
    except (OSError, CorpusError) as fault:
        faults.append(fault)
    lines.put(_END)


def _decoded(line: bytes, number: int) -> str:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    fault = "zero byte" if b"\0" in line else ""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte 0x{line[error.start]:02x}"
    if fault:
        raise CorpusError(
            f"standard input is not UTF-8 text: {fault} in line {number:,}",
            hint="convert it first: iconv -f UTF-16 -t UTF-8 (or -f ISO-8859-1; Chinese: "
            "-f GB18030 or -f BIG5)",
            kind="corpus.not-utf8",
        )
    return text.removesuffix("\n").removesuffix("\r")
