"""Atomic writing of files and folders, and digests.

Everything is written under a temporary name and then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from jtrans.errors import CorpusError, JtransError, WorkError, did_you_mean

# The length of a short digest: enough to tell millions of keys apart.
SHORT_DIGEST_BYTES = 16
_LINES_AT_ONCE = 10_000
LONGEST_LINE = 64 << 20  # bytes; more are no sentence, and would be read into memory
# the errors of file systems that cannot sync folders
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_log = logging.getLogger(__name__)


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
    """Return what a user can do about a failed write to a path; None if the error is another."""
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
        return _forbidden(path)
    if number in (errno.ENOLCK, errno.EOPNOTSUPP):
        return JtransError(
            f"the file system of {path} cannot lock files",
            hint="choose a folder on another file system, or have it mounted with locks",
            kind="disk.no-locks",
        )
    if number in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        files = [parent for parent in path.parents if parent.is_file()]
        broken = [each for each in path.parents if each.is_symlink() and not each.exists()]
        reason = f"{files[0]} is no folder" if files else os.strerror(number).lower()
        reason = f"{broken[0]} is a link to nothing" if broken else reason
        return JtransError(
            f"cannot write {path}: {reason}", hint="choose another path", kind="disk.not-a-folder"
        )
    if number in (errno.ENAMETOOLONG, errno.ELOOP):
        return JtransError(
            f"{os.strerror(number).lower()}: {path}", hint="choose another path", kind="disk.path"
        )
    return None


def _forbidden(path: Path) -> JtransError:
    if path.is_file() and not os.access(path, os.R_OK):
        return JtransError(
            f"no permission to read {path}",
            hint="ask its owner to permit it (chmod a+r), or for a copy",
            kind="disk.unreadable",
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
    """Explain that nothing can be created in a folder that is there, such as /proc.

    Raises:
        JtransError: naming the folder.
    """
    try:
        yield
    except FileNotFoundError as error:  # others are known to `disk_errors`
        raise JtransError(
            f"no file can be created in {folder}",
            hint="choose another folder",
            kind="disk.no-files",
        ) from error


def behind_links(path: Path) -> Path:
    """Return the path that a symbolic link stands for, which may be free; `path` if it is none.

    Raises:
        OSError: the links form a loop.
        JtransError: the link points into a folder that is not there, perhaps of another disk.
    """
    if not path.is_symlink():
        return path
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if not real.parent.is_dir():
        raise JtransError(
            f"{path} is a link to {real}, and there is no folder {real.parent}",
            hint="create that folder, or remove the link",
            kind="disk.broken-link",
        )
    return real


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed while they wrote a file have left beside it.

    No other process may be writing the file.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path, *, is_durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path` that becomes `path` when the block succeeds.

    A link stays one, and what it points to is written. If the file `is_durable`, it is synced to
    disk first, so that it survives a power cut.
    """
    with disk_errors(path):
        path = behind_links(path)
        temporary = _temporary(path)
        with creation_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()
        try:
            yield temporary
            if is_durable:
                _sync(temporary)
            temporary.replace(path)
            if is_durable:
                _sync(path.parent)
            _log.info("wrote %s", path)
        finally:
            temporary.unlink(missing_ok=True)


def irreplaceable(folder: Path) -> str | None:
    """Return in words what keeps another folder from taking the place of `folder`, or None."""
    real = Path(os.path.realpath(folder))
    if os.path.ismount(real):
        return "a disk is mounted there"
    is_above = real.is_dir() and Path.cwd().is_relative_to(real)
    return "this is the working directory" if is_above else None


@contextlib.contextmanager
def whole_folder(path: Path, *, replaces: bool = True) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that becomes `path` when the block succeeds.

    Its files are synced to disk first, so that it survives a power cut. They get the permissions of
    new files, even if the library that wrote them (safetensors) lets only their owner read them.

    Args:
        path: the final folder; an existing folder is replaced only when the block succeeds. A link
            stays one, and what it points to is written.
        replaces: whether a folder that is not empty may be replaced.

    Raises:
        FileExistsError: the folder is not empty and must not be replaced.
        JtransError: it cannot be replaced, or not be written.
    """
    if problem := irreplaceable(path):
        raise JtransError(
            f"{path} cannot be replaced: {problem}",
            hint=f"choose a folder inside it, such as {path / 'new'}; or start elsewhere",
            kind="disk.place",
        )
    with disk_errors(path):
        path = behind_links(path)
        temporary = _temporary(path)
        with creation_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
        try:
            yield temporary
            mode = temporary.stat().st_mode & 0o666  # the bits that the umask permits
            for folder, _, names in os.walk(temporary):
                for name in names:
                    Path(folder, name).chmod(mode)
                for name in (*names, "."):
                    _sync(Path(folder, name))
            with contextlib.suppress(OSError):
                path.rmdir()  # empty
            if path.exists() and not replaces:
                raise FileExistsError(errno.EEXIST, "already exists", str(path))
            if path.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)) / "old"
                path.rename(old)
                temporary.rename(path)
                # it is replaced: a file that is still open on a network disk must not undo that
                shutil.rmtree(old.parent, ignore_errors=True)
                if old.parent.exists():
                    _log.warning("%s could not be deleted", old.parent)
            else:
                temporary.rename(path)
            _sync(path.parent)
            _log.info("wrote %s", path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _sync(path: Path) -> None:
    """Write a file, or a folder's list of names, through to the disk."""
    if os.name == "nt":
        return  # Windows syncs neither folders nor files opened for reading
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)


def as_text(name: str) -> str:
    """Return a file's name as valid Unicode text; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def path_hint(path: Path) -> str:
    """Return a hint for a file that cannot be opened, such as the nearest name in its folder."""
    folder = path.parent
    if path.exists():
        return "check the path, and that you may read it"
    if str(path) == "-":
        return "standard input is not read here: name a file, or in bash <(COMMAND)"
    if not folder.is_dir():
        return f"there is no folder {folder}: check the path"
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        names = []
    near = did_you_mean(path.name, names)
    if near:
        return f"did you mean {folder / near}?"
    return f"check the path: {folder.absolute()} has no file with a similar name"


def write_bytes(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Write bytes, whole or not at all (see `whole_file`)."""
    with whole_file(path, is_durable=is_durable) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with Unix line endings, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_lines(path: Path, lines: Iterable[str], *, is_durable: bool = True) -> None:
    """Write lines, none containing a line feed, whole or not at all (see `whole_file`)."""
    with whole_file(path, is_durable=is_durable) as temporary, temporary.open("wb") as handle:
        for block in _line_blocks(lines):
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
    """Return the error of a line that is longer than `LONGEST_LINE`."""
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


def cache_folder() -> Path:
    """Return the folder of downloads and measurements: JTRANS_CACHE, or one in the user's cache.

    Where that cannot be written, as in a container for any user, it is one of temporary files.
    """
    if folder := os.environ.get("JTRANS_CACHE"):
        return Path(folder)
    with contextlib.suppress(RuntimeError, PermissionError):  # no home, or that of another user
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if os.access(next(place for place in (cache, *cache.parents) if place.exists()), os.W_OK):
            return cache / "jtrans"
    # others may have one there, too, but not on Windows
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"jtrans{user}"


def text_digest(text: str) -> str:
    """Return the sha256 of a text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def lines_digest(lines: Iterable[str]) -> str:
    """Return the sha256 of lines, each ended by a line feed."""
    sha = hashlib.sha256()
    for block in _line_blocks(lines):
        sha.update(block)
    return sha.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remembered_digest(path: Path) -> str:
    """Return the sha256 of a file, which is read again only after a change of its time or size."""
    status = path.stat()
    return _digest_at(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _digest_at(path: Path, _changed: int, _size: int) -> str:
    return file_digest(path)


def short_digest(data: bytes) -> bytes:
    """Return a digest of `SHORT_DIGEST_BYTES` bytes, for use as a key in memory."""
    return hashlib.blake2b(data, digest_size=SHORT_DIGEST_BYTES).digest()


def _line_blocks(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield blocks of many lines, each line ended by a line feed."""
    iterator = iter(lines)
    while block := list(itertools.islice(iterator, _LINES_AT_ONCE)):
        yield "".join(f"{line}\n" for line in block).encode("utf-8")
