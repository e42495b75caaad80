"""Files written line by line in a way that can be continued: after Ctrl-C, a kill or a power cut.

    FILE.part         whole lines written so far
    FILE.part.json    how many lines they come from, and everything the output depends on

A second attempt with the same inputs and options drops what was written after the last entry of
`FILE.part.json` and goes on from there; with others it starts over. When all is done, `FILE.part`
becomes FILE.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from jtrans.errors import JtransError
from jtrans.files import disk_errors, read_json, write_json


class PartialOutput:
    """Several output files, written together.

    Args:
        paths: their names.
        identity: JSON values; everything the output depends on.

    Attributes:
        lines: input lines whose output is written.

    Raises:
        JtransError: they cannot be written.
    """

    def __init__(self, paths: Sequence[Path], identity: Mapping[str, Any]) -> None:
        self.paths = paths
        self.identity = dict(identity)
        self.lines = 0
        self._parts = [path.with_name(path.name + ".part") for path in paths]
        self._state = paths[0].with_name(paths[0].name + ".part.json")
        sizes = self._recorded()
        self._streams = [
            self._open(part, size) for part, size in zip(self._parts, sizes, strict=True)
        ]

    def __enter__(self) -> Self:
        """Return the output, open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the files their names; after an error they stay as parts."""
        for stream in self._streams:
            stream.close()
        if kind is None:
            for part, path in zip(self._parts, self.paths, strict=True):
                with disk_errors(path):
                    part.replace(path)
            self._state.unlink(missing_ok=True)
        elif self.lines == 0:
            for path in [*self._parts, self._state]:
                path.unlink(missing_ok=True)

    def append(self, texts: Sequence[str], lines: int) -> None:
        """Write the output of some more lines.

        Args:
            texts: for each file, whole lines.
            lines: of the input.
        """
        for stream, text, part in zip(self._streams, texts, self._parts, strict=True):
            with disk_errors(part):
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
        self.lines += lines
        sizes = [stream.tell() for stream in self._streams]
        write_json(self._state, {**self.identity, "lines": self.lines, "sizes": sizes})

    def _recorded(self) -> list[int]:
        """Return the bytes of each file that are to be kept, and take over the number of lines."""
        nothing = [0] * len(self.paths)
        try:
            state = dict(read_json(self._state))
            lines, sizes = int(state.pop("lines")), [int(size) for size in state.pop("sizes")]
            there = [part.stat().st_size for part in self._parts]
        except (JtransError, OSError, ValueError, KeyError, TypeError):
            return nothing
        is_whole = len(sizes) == len(there) and all(map(int.__le__, sizes, there))
        if state != self.identity or not is_whole:
            return nothing
        self.lines = lines
        return sizes

    @staticmethod
    def _open(part: Path, size: int) -> BinaryIO:
        with disk_errors(part):
            part.parent.mkdir(parents=True, exist_ok=True)
            stream = part.open("r+b" if size else "wb")
            stream.truncate(size)
            stream.seek(size)
            return stream
