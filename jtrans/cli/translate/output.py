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
    path = Path(name)
    with contextlib.ExitStack() as stack:
        if is_ordinary(name):
            path = stack.enter_context(whole_file(path))
        else:
            stack.enter_context(disk_errors(path))
        yield stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))


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
