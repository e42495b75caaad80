"""Failures of the file system as errors that a user can act on."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jtrans.errors import JtransError, WorkError


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn write failures into errors that a user can act on.

    Where blocks are nested, the error names the path of the outermost one.

    Raises:
        WorkError: the disk is full, or the file too large (exit code 1).
        JtransError: the path cannot be written (exit code 2).
    """
    try:
        yield
    except Exception as raised:
        error = raised.__cause__ if isinstance(raised, JtransError) else raised
        is_ours = not isinstance(raised, JtransError) or raised.kind.startswith("disk.")
        number = _error_number(error) if is_ours else None
        explained = None if number is None else _explained(number, path)
        if explained is None:
            raise
        raise explained from error


def _explained(number: int, path: Path) -> JtransError | None:
    """Return the error for a failed write to a path; None for error numbers not known here."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        # not gettempdir(), which would write to find a folder
        is_temporary = tempfile.tempdir is not None and path == Path(tempfile.tempdir)
        other = "set TMPDIR to another folder" if is_temporary else "choose another folder"
        return WorkError(
            f"the disk is full: cannot write {path}",
            hint=f"free some space or {other}, then run the same command again",
            kind="disk.full",
        )
    if number == errno.EFBIG:
        return WorkError(
            f"{path} would exceed the largest file size allowed",
            hint="lift the limit (ulimit -f), or choose a folder on another file system",
            kind="disk.file-size",
        )
    if number in (errno.EACCES, errno.EROFS, errno.EPERM):
        return _forbidden(number, path)
    if number in (errno.ENOLCK, errno.EOPNOTSUPP):
        return JtransError(
            f"the file system of {path} cannot lock files",
            hint="choose a folder on another file system, or have it mounted with locks",
            kind="disk.no-locks",
        )
    if number in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        files = [parent for parent in path.parents if parent.is_file()]
        broken = [each for each in path.parents if each.is_symlink() and not each.exists()]
        reason = f"{files[0]} is not a folder" if files else os.strerror(number).lower()
        reason = f"{broken[0]} is a link to nothing" if broken else reason
        return JtransError(
            f"cannot write {path}: {reason}", hint="choose another path", kind="disk.not-a-folder"
        )
    if number in (errno.ENAMETOOLONG, errno.ELOOP):
        return JtransError(
            f"{os.strerror(number).lower()}: {path}", hint="choose another path", kind="disk.path"
        )
    return None


def _forbidden(number: int, path: Path) -> JtransError:
    if path.is_file() and not os.access(path, os.R_OK):
        return JtransError(
            f"no permission to read {path}",
            hint="ask its owner for read permission (chmod a+r), or for a copy",
            kind="disk.unreadable",
        )
    if number == errno.EROFS:
        return JtransError(
            f"cannot write {path}: its file system is read-only",
            hint="choose a folder on another file system",
            kind="disk.read-only",
        )
    return JtransError(
        f"no permission to write {path}",
        hint="choose a folder you can write",
        kind="disk.read-only",
    )


def _error_number(error: BaseException | None) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    # errors from safetensors (in Rust) and from other processes carry the number only as text
    match = re.search(r"(?:\(os error |\[Errno )(\d+)[)\]]", str(error))
    return int(match[1]) if match else None


@contextlib.contextmanager
def creation_errors(folder: Path) -> Iterator[None]:
    """Explain that nothing can be created in a folder that exists, such as /proc.

    Raises:
        JtransError: naming the folder.
    """
    try:
        yield
    except FileNotFoundError as error:  # `disk_errors` handles others
        raise JtransError(
            f"no file can be created in {folder}",
            hint="choose another folder",
            kind="disk.no-files",
        ) from error
