"""Where translations are written: a file that appears complete or not at all, or a stream."""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from jtrans.cli import console
from jtrans.errors import JtransError
from jtrans.files import disk_errors, whole_file
from jtrans.locks import check_names_are_free, exclusive

MOST_LINKS = 40  # followed in a row, as on Linux
STREAMS = (Path("/dev"), Path("/dev/fd"))  # links in them lead to streams; /dev/shm has files


@contextlib.contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """Open the output; a file appears complete or not at all.

    What was written to it before an error is kept beside it, as ``FILE.incomplete``.
    """
    if name == "-":
        yield sys.stdout
        return
    path = Path(name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(naming_its_output(name))
        if is_ordinary(name):
            temporary = stack.enter_context(whole_file(path))
            stack.enter_context(_kept(temporary, path))
            path = temporary
        yield stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))


@contextlib.contextmanager
def naming_its_output(name: str) -> Iterator[None]:
    """Let the error of a failed write name this output, not another one that is open.

    Raises:
        JtransError: the output cannot be written.
    """
    try:
        with disk_errors(Path("the output" if name == "-" else name)):
            yield
    except JtransError as error:
        raise error from None  # without a cause, an outer `disk_errors` keeps the message


@contextlib.contextmanager
def _kept(temporary: Path, path: Path) -> Iterator[None]:
    """After an error, keep the contents of the temporary file as ``FILE.incomplete``."""
    try:
        yield
    except BaseException:
        kept = path.with_name(f"{path.name}.incomplete")
        with contextlib.suppress(OSError):  # the error is what counts
            if temporary.stat().st_size:
                shutil.move(temporary, kept)
                console.talk(f"what was written before is in {kept}")
        raise


@contextlib.contextmanager
def locked(files: Mapping[str, Path]) -> Iterator[None]:
    """Keep other processes from writing some files while the block runs.

    Args:
        files: the files by the options that name them.

    Raises:
        JtransError: another process writes one of them, or its lock cannot be created.
    """
    with contextlib.ExitStack() as stack:
        # in a fixed order: of two commands with the same files, one gets all of them
        for option, path in sorted(files.items(), key=lambda item: item[1].resolve()):
            lock = path.with_name(f"{path.name}.lock.json")
            check_names_are_free(lock)
            with disk_errors(path):  # errors name the file, not its lock
                stack.enter_context(exclusive(lock, functools.partial(_busy, option, path)))
        yield


def _busy(option: str, path: Path, owner: str) -> JtransError:
    return JtransError(
        f"{path} is being written by {owner}",
        where=option,
        hint=f"wait for it, or give another {option}",
        kind="disk.busy",
    )


def is_ordinary(name: str) -> bool:
    """Return whether a path, or its link's target, is a plain file or free, not a device or pipe.

    ``/dev/stdout`` is not: even where it links to a plain file, that must not be replaced.
    """
    path = Path(name)
    for _ in range(MOST_LINKS):
        if not path.is_symlink():
            break
        if path.absolute().parent in STREAMS or path.absolute().is_relative_to("/proc"):
            return False
        path = path.parent / path.readlink()
    return path.is_file() or not path.exists()
