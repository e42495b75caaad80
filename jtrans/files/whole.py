"""Writing of files and folders, whole or not at all.

Everything is written under a temporary name and then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jtrans.errors import JtransError
from jtrans.files.faults import creation_errors, disk_errors

# the errors of file systems that cannot sync folders
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_log = logging.getLogger(__name__)


def behind_links(path: Path) -> Path:
    """Return the target of a symbolic link, which need not exist; `path` if it is not a link.

    Raises:
        OSError: the links form a loop.
        JtransError: the target's folder does not exist, perhaps because a disk is not mounted.
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
    """Remove temporary files that processes killed while writing a file have left beside it.

    No other process may be writing the file.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path, *, is_durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path` that becomes `path` when the block succeeds.

    If `path` is a link, its target is written. If the file `is_durable`, it is synced to disk
    first, so that it survives a power cut.

    Raises:
        JtransError: it cannot be written.
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
    """Return why no other folder can take the place of `folder`, as text; None if one can."""
    real = Path(os.path.realpath(folder))
    if os.path.ismount(real):
        return "a disk is mounted there"
    is_above = real.is_dir() and Path.cwd().is_relative_to(real)
    return "this is the working directory" if is_above else None


def foreign_file(folder: Path, is_own: Callable[[str], object]) -> str | None:
    """Return the path within a folder of a file or link that is not `is_own`, None if all are."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not is_own(name) and (path.is_symlink() or not path.is_dir()):
            return name
    return None


@contextlib.contextmanager
def whole_folder(path: Path, *, replaces: bool = True) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that becomes `path` when the block succeeds.

    Its files are synced to disk first, so that it survives a power cut. They get the permissions of
    new files, even if the library that wrote them (safetensors) lets only their owner read them.

    Args:
        path: the final folder; an existing folder is replaced only when the block succeeds. If it
            is a link, its target is written.
        replaces: whether a folder that is not empty may be replaced.

    Raises:
        FileExistsError: the folder is not empty and must not be replaced.
        JtransError: it cannot be replaced or written.
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
                # the folder is replaced: a file still open on a network disk must not undo that
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


def write_bytes(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Write bytes, whole or not at all (see `whole_file`)."""
    with whole_file(path, is_durable=is_durable) as temporary:
        temporary.write_bytes(data)
