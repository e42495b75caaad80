"""Files written line by line in a way that can be continued: after Ctrl-C, a kill or a power cut.

    FILE.part         whole lines written so far
    FILE.part.json    how many lines they come from, and everything the output depends on

A second attempt with the same inputs and options drops what was written after the last entry of
`FILE.part.json` and continues from there. With others, or if `FILE.part` has been edited, it starts
over as soon as it has lines to write; an attempt that fails before leaves the files as they are.
When all is done, `FILE.part` becomes FILE.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from jtrans.errors import JtransError, WorkError
from jtrans.files import disk_errors, read_json, remove_leftovers, write_json

BYTES_AT_ONCE = 2**20


class PartialOutput:
    """Several output files, written together.

    Args:
        paths: their names.
        identity: JSON values; everything the output depends on.

    Attributes:
        lines: number of input lines whose output is written.
        is_over: whether the lines of an earlier attempt are dropped at the first `append`, because
            something has changed.

    Raises:
        JtransError: they cannot be written; errors name the files, not their parts.
    """

    def __init__(self, paths: Sequence[Path], identity: Mapping[str, Any]) -> None:
        self.paths = paths
        self.identity = dict(identity)
        self.lines = 0
        self._parts = [path.with_name(path.name + ".part") for path in paths]
        self._state = paths[0].with_name(paths[0].name + ".part.json")
        self._digests = [hashlib.sha256() for _ in paths]
        remove_leftovers(self._state)
        self._kept = self._recorded()
        files = [*self._parts, self._state]
        self.is_over = not self.lines and any(
            each.exists() and each.stat().st_size for each in files
        )
        self._has_begun = False
        self._created = [part for part in self._parts if not part.exists()]
        self._streams = [self._open(*each) for each in zip(self.paths, self._parts, strict=True)]

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
        try:
            if kind is None:
                self._check_in_place()
                self._begin()
        finally:
            for stream in self._streams:
                stream.close()
        if kind is None:
            for part, path in zip(self._parts, self.paths, strict=True):
                with disk_errors(path):
                    part.replace(path)
            self._state.unlink(missing_ok=True)
        elif self.lines == 0:
            for path in [*self._parts, self._state] if self._has_begun else self._created:
                path.unlink(missing_ok=True)

    def append(self, texts: Sequence[str], lines: int) -> None:
        """Write the output of some more lines.

        Args:
            texts: for each file, whole lines.
            lines: number of input lines that they come from.

        Raises:
            JtransError: they cannot be written.
            WorkError: what was written has been removed.
        """
        self._check_in_place()
        self._begin()
        files = zip(self._streams, texts, self.paths, self._digests, strict=True)
        for stream, text, path, digest in files:
            data = text.encode("utf-8")
            digest.update(data)
            with disk_errors(path):
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        self.lines += lines
        sizes = [stream.tell() for stream in self._streams]
        digests = [digest.hexdigest() for digest in self._digests]
        progress = {"lines": self.lines, "sizes": sizes, "sha256": digests}
        with disk_errors(self.paths[0]):
            write_json(self._state, {**self.identity, **progress})

    def _begin(self) -> None:
        """Drop what an earlier attempt wrote after its last entry, or all of it."""
        if self._has_begun:
            return
        self._has_begun = True
        for stream, size, path in zip(self._streams, self._kept, self.paths, strict=True):
            with disk_errors(path):
                stream.truncate(size)
                stream.seek(size)

    def _check_in_place(self) -> None:
        """Refuse to write to files that were removed or moved: all further work would be lost."""
        for stream, part in zip(self._streams, self._parts, strict=True):
            try:
                is_there = os.path.samestat(os.fstat(stream.fileno()), part.stat())
            except FileNotFoundError:
                is_there = False
            if not is_there:
                raise WorkError(
                    f"{part} was removed or replaced while it was written",
                    hint="run the same command again",
                    kind="disk.removed",
                )

    def _recorded(self) -> list[int]:
        """Return how many bytes of each file to keep; restore the number of lines and digests."""
        nothing = [0] * len(self.paths)
        try:
            state = dict(read_json(self._state))
            lines, sizes = int(state.pop("lines")), [int(size) for size in state.pop("sizes")]
            written = state.pop("sha256")
            if state != self.identity or len(sizes) != len(self._parts):
                return nothing
            digests = [*map(_digest, self._parts, sizes)]
        except (JtransError, OSError, ValueError, KeyError, TypeError):
            return nothing
        if written != [digest.hexdigest() for digest in digests]:
            return nothing
        self.lines, self._digests = lines, digests
        return sizes

    @staticmethod
    def _open(path: Path, part: Path) -> BinaryIO:
        with disk_errors(path):
            part.parent.mkdir(parents=True, exist_ok=True)
            return part.open("r+b" if part.exists() else "w+b")


def _digest(path: Path, size: int) -> hashlib._Hash:
    """Return the digest of the first `size` bytes of a file, or of all there are."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(min(size, BYTES_AT_ONCE)):
            digest.update(data)
            size -= len(data)
    return digest
