"""Unpacking of untrusted archives: nothing outside the folder, no links, no archive bombs."""

from __future__ import annotations

import functools
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from jtrans.errors import CorpusError
from jtrans.files import whole_folder

ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
CHUNK_BYTES = 1 << 20
# Exceptions of the standard library for damaged, encrypted or unknown archives.
DAMAGES = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
# Limits that an archive bomb exceeds and no corpus reaches.
MOST_FILES = 100_000
MOST_RATIO = 100  # unpacked bytes for each packed one; text has about 4, at most 20
FREE_BYTES = 100_000_000  # the unpacked size that is allowed at any ratio


class _Member(NamedTuple):
    name: str
    is_file: bool
    is_folder: bool
    open: Callable[[], Any]  # opens it as a binary file


def is_archive(name: str) -> bool:
    """Return whether a file of this name is an archive of several files."""
    return name.lower().endswith(ARCHIVES)


def unpack(
    archive: Path, folder: Path, *, is_needed: Callable[[str], bool] = lambda _name: True
) -> None:
    """Unpack files into a new folder, which appears only when complete.

    Args:
        archive: a tar, packed or not, or a zip file.
        folder: the folder to create.
        is_needed: returns whether to unpack a file, given its path in the archive.

    Raises:
        CorpusError: the archive is damaged, names files outside the folder, holds links or
            devices among the files needed, or is too large.
    """
    try:
        with whole_folder(folder) as temporary:
            _extract(archive, temporary, is_needed)
    except DAMAGES as error:
        reason = str(error).partition(":\n")[0]  # tarfile lists what it tried in further lines
        raise CorpusError(
            f"{archive} cannot be unpacked: {reason}",
            hint="get the archive again",
            kind="corpus.archive",
        ) from error


def _extract(archive: Path, folder: Path, is_needed: Callable[[str], bool]) -> None:
    allowed = max(FREE_BYTES, MOST_RATIO * archive.stat().st_size)
    count = 0
    for member in _members(archive):
        path = _safe_path(member.name, archive)
        if member.is_folder or not is_needed(path.as_posix()):
            continue
        if not member.is_file:
            raise _refused(archive, f"{member.name} is a link or a device, not a file")
        count += 1
        if count > MOST_FILES:
            raise _refused(archive, f"it holds more than {MOST_FILES:,} files")
        with member.open() as packed:
            allowed -= _copy(packed, folder / path, allowed, archive)


def _members(archive: Path) -> Iterator[_Member]:
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as zip_file:
            for info in zip_file.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                is_file = kind in (0, stat.S_IFREG) and not info.is_dir()
                opener = functools.partial(zip_file.open, info)
                yield _Member(info.filename, is_file, info.is_dir(), opener)
        return
    with tarfile.open(archive, "r:*") as tar_file:
        for item in tar_file:
            reader = functools.partial(tar_file.extractfile, item)
            yield _Member(item.name, item.isreg(), item.isdir(), reader)


def _safe_path(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    has_drive = bool(path.parts) and path.parts[0][1:2] == ":"
    if path.is_absolute() or ".." in path.parts or has_drive or "\0" in name:
        raise _refused(archive, f"{name!r} would be written outside the folder")
    return path


def _copy(packed: IO[bytes], path: Path, allowed: int, archive: Path) -> int:
    """Write one file, counting its real size, not the one the archive claims."""
    size = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("xb")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _refused(archive, f"it holds {path.name} twice") from error
    with handle:
        while chunk := packed.read(CHUNK_BYTES):
            size += len(chunk)
            if size > allowed:
                raise _refused(archive, "it unpacks to far more than a corpus of its size")
            handle.write(chunk)
    return size


def _refused(archive: Path, why: str) -> CorpusError:
    return CorpusError(
        f"{archive} is not unpacked: {why}",
        hint="get the archive from the address that jtrans corpora NAME shows, and inspect it",
        kind="corpus.archive-unsafe",
    )
