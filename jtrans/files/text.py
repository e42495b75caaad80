"""Files of lines and of JSON."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from jtrans.errors import CorpusError, JtransError
from jtrans.files.whole import whole_file, write_bytes

_LINES_AT_ONCE = 10_000
LONGEST_LINE = 64 << 20  # bytes; a longer line is not a sentence, and would be read into memory
_log = logging.getLogger(__name__)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with Unix line endings, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, none containing a line feed, whole or not at all, except after a power cut."""
    with whole_file(path, is_durable=False) as temporary, temporary.open("wb") as handle:
        for block in line_blocks(lines):
            handle.write(block)


def read_lines(path: Path) -> list[str]:
    """Read a file written by `write_lines`; use `jtrans.corpora.lines` for other text."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def raw_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a stream, with their ends.

    Raises:
        CorpusError: a line is too long; those before it have been yielded.
    """
    for number in itertools.count(1):
        line = stream.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            raise long_line(name, number)
        if not line:
            return
        yield line


def long_line(name: str, number: int) -> CorpusError:
    """Return the error for a line that is longer than `LONGEST_LINE`."""
    return CorpusError(
        f"line {number:,} of {name} is longer than {LONGEST_LINE >> 20} MiB",
        where=f"{name}:{number}",
        hint="check that it is text with one sentence per line",
        kind="corpus.long-line",
    )


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    # file names that are not UTF-8 contain lone surrogates, which JSON can only write as escapes
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> Any:
    """Read one JSON file.

    Raises:
        JtransError: the file is missing or is not JSON.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise JtransError(f"no such file: {path}", kind="file.missing") from error
    except (ValueError, RecursionError) as error:  # also of integers with thousands of digits
        raise JtransError(
            f"{path} is damaged: not valid JSON ({error})",
            hint="recreate it with the command that wrote it",
            kind="file.damaged",
        ) from error
    _log.info("read %s", path)
    return value


def read_table(path: Path) -> dict[str, Any]:
    """Read one JSON object; empty if the file is missing, damaged or holds anything else."""
    try:
        value = read_json(path)
    except JtransError:
        return {}
    return value if isinstance(value, dict) else {}


def line_blocks(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield blocks of many lines, each line ended by a line feed."""
    iterator = iter(lines)
    while block := list(itertools.islice(iterator, _LINES_AT_ONCE)):
        yield "".join(f"{line}\n" for line in block).encode("utf-8")
