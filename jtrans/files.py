"""Files that are either whole or absent: write under a temporary name, then rename."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jtrans.errors import JtransError, WorkError, did_you_mean


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write into errors a user can act on.

    Raises:
        WorkError: the disk is full (exit code 1).
        JtransError: the place cannot be written (exit code 2).
    """
    try:
        yield
    except JtransError:
        raise
    except Exception as error:
        number = _error_number(error)
        if number in (errno.ENOSPC, errno.EDQUOT):
            raise WorkError(
                f"the disk is full: cannot write {path}",
                hint="free some space or choose another folder, then run the same command again",
                kind="disk.full",
            ) from error
        if number in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise JtransError(
                f"no permission to write {path}",
                hint="choose a folder you can write",
                kind="disk.read-only",
            ) from error
        if number in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            raise JtransError(
                f"cannot write {path}: {os.strerror(number).lower()}",
                hint="choose another path",
                kind="disk.not-a-folder",
            ) from error
        raise


def _error_number(error: Exception) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    # safetensors is written in Rust: the number stands only in the text of its own exception
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that becomes `path` when the block succeeds."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            yield temporary
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that becomes `path` when the block succeeds.

    An existing `path` is replaced only then.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        temporary.chmod(0o755)
        try:
            yield temporary
            if path.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)) / "old"
                path.rename(old)
                temporary.rename(path)
                shutil.rmtree(old.parent)
            else:
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def path_hint(path: Path) -> str:
    """Say what to do about a file that cannot be opened: the name nearest to it, where to look."""
    folder = path.parent
    if path.exists():
        return "check the path, and that you may read it"
    if not folder.is_dir():
        return f"there is no folder {folder}: check the path"
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        names = []
    near = did_you_mean(path.name, names)
    if near:
        return f"did you mean {folder / near}?"
    return f"check the path: {folder.absolute()} has no file with a name like it"


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with Unix line ends, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read one JSON file.

    Raises:
        JtransError: the file is missing or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise JtransError(f"no such file: {path}", kind="file.missing") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise JtransError(
            f"{path} is damaged: not valid JSON ({error})",
            hint="make it again with the command that wrote it",
            kind="file.damaged",
        ) from error
