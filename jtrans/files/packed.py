"""Reading of files compressed with gzip, xz or zstandard, by their extension."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import lzma
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from jtrans.errors import CorpusError
from jtrans.files.names import path_hint

PACKINGS = (".gz", ".xz", ".zst")
# the endings of archives, and of other compression
NOT_READ = (
    ".bz2", ".lz4", ".lzma", ".Z", ".zip", ".7z", ".rar",
    ".tar", ".tar.gz", ".tar.xz", ".tar.zst", ".tgz", ".txz", ".tzst",
)  # fmt: skip
CHUNK_BYTES = 1 << 20
if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def fed_to(command: str, path: Path) -> str:
    """Return a shell command that reads a file, packed or not, from standard input."""
    name = shlex.quote(str(path))
    unpack = {".gz": "gzip -dc", ".xz": "xz -dc", ".zst": "zstd -dc"}.get(path.suffix)
    return f"{unpack} {name} | {command}" if unpack else f"{command} < {name}"


def without_packing(name: str) -> str:
    """Return a file's name without .gz, .xz or .zst."""
    return next((name.removesuffix(end) for end in PACKINGS if name.endswith(end)), name)


def find_packed(path: Path) -> Path | None:
    """Return `path`, or else its compressed version; None if neither exists."""
    candidates = (path, *(path.with_name(path.name + ending) for ending in PACKINGS))
    return next((candidate for candidate in candidates if candidate.exists()), None)


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the unpacked contents of a file.

    Raises:
        CorpusError: the file is missing, a folder, not readable or cut short.
    """
    try:
        with path.open("rb") as handle:
            yield from _unpacked(path, handle)
    except FileNotFoundError as error:
        raise CorpusError(
            f"no such file: {path}", hint=path_hint(path), kind="corpus.missing-file"
        ) from error
    except IsADirectoryError as error:
        raise CorpusError(
            f"{path} is a folder, not a file",
            hint="name a file with one sentence per line",
            kind="corpus.folder",
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        packing = {".gz": "gzip", ".xz": "xz", ".zst": "zst"}[path.suffix]
        raise CorpusError(
            f"{path} is not a complete {packing} file: {error}",
            hint="get the file again, or rename it if it is not compressed",
            kind="corpus.gzip" if packing == "gzip" else "corpus.packed",
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CorpusError(
            f"cannot read {path}: {reason}",
            hint="check the path, and the disk that it is on",
            kind="corpus.unreadable",
        ) from error


def open_unpacked(path: Path) -> IO[bytes]:
    """Open a file as a stream of its unpacked contents; reading raises as `read_chunks` does."""
    return io.BufferedReader(_ChunkStream(read_chunks(path)))


class _ChunkStream(io.RawIOBase):
    """Chunks as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)  # an empty read would end the stream
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the start of a buffer, and return the number of bytes; 0 at the end."""
        self._rest = self._rest or memoryview(next(self._chunks, b""))
        room = memoryview(buffer).cast("B")
        count = min(len(room), len(self._rest))
        room[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _unpacked(path: Path, handle: BinaryIO) -> Iterator[bytes]:
    if path.suffix == ".zst":
        yield from _zstandard(path, handle)
        return
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    opener = openers.get(path.suffix, contextlib.nullcontext)
    with opener(handle) as plain:
        while chunk := plain.read(CHUNK_BYTES):
            yield chunk


def _zstandard(path: Path, handle: BinaryIO) -> Iterator[bytes]:
    """Yield the contents of a .zst file, of any number of frames."""
    decoder: Any = None
    new_decoder, failure = _zstandard_decoder(path)
    try:
        while packed := handle.read(CHUNK_BYTES):
            while packed:
                decoder = decoder or new_decoder()
                yield decoder.decompress(packed)
                packed = decoder.unused_data if decoder.eof else b""
                if decoder.eof:
                    decoder = None
    except failure as error:
        raise EOFError(str(error)) from error
    if decoder is not None:
        raise EOFError("it is truncated")


def _zstandard_decoder(path: Path) -> tuple[Any, type[Exception]]:
    """Return a decoder factory and its exception: Python's own, or of the package zstandard."""
    try:
        module: Any = importlib.import_module("compression.zstd")  # from Python 3.14 on
        return module.ZstdDecompressor, module.ZstdError
    except ModuleNotFoundError:
        pass
    try:
        package: Any = importlib.import_module("zstandard")
        return lambda: package.ZstdDecompressor().decompressobj(), package.ZstdError
    except ModuleNotFoundError as error:
        raise CorpusError(
            f"{path} needs the package zstandard, which is not installed",
            hint="pip install 'jtrans[zstd]', or unpack the file: zstd -d",
            kind="corpus.no-zstd",
        ) from error
