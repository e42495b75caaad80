"""Where translations are written: a file whole or not at all, or a stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from jtrans.errors import JtransError
from jtrans.files import disk_errors, whole_file


@contextlib.contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """Open the output; a file appears complete or not at all."""
    if name == "-":
        yield sys.stdout
        return
    if not is_ordinary(name):
        with (
            disk_errors(Path(name)),
            Path(name).open("w", encoding="utf-8", newline="\n") as stream,
        ):
            yield stream
        return
    with (
        whole_file(Path(name)) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


@contextlib.contextmanager
def optional_output(name: str | None) -> Iterator[TextIO | None]:
    """Open an output if it is named; otherwise return a context without one."""
    if name is None:
        yield None
        return
    with open_output(name) as stream:
        yield stream


def busy(path: Path, owner: str) -> JtransError:
    """Return the error of a file that another process writes."""
    return JtransError(
        f"{path} is being written by {owner}",
        where="--output",
        hint="wait for it, or give another --output",
        kind="disk.busy",
    )


def is_ordinary(name: str) -> bool:
    """Return whether a path is free or a plain file, not a device, a named pipe or a link.

    `/dev/stdout` is a link, perhaps to a plain file, whose place no other file must take.
    """
    path = Path(name)
    return not path.is_symlink() and (path.is_file() or not path.exists())
