"""Digests of files, lines and texts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from jtrans.files.text import line_blocks

# The length of a short digest: enough to tell millions of keys apart.
SHORT_DIGEST_BYTES = 16


def text_digest(text: str) -> str:
    """Return the sha256 of a text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def lines_digest(lines: Iterable[str]) -> str:
    """Return the sha256 of lines, each ended by a line feed."""
    sha = hashlib.sha256()
    for block in line_blocks(lines):
        sha.update(block)
    return sha.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remembered_digest(path: Path) -> str:
    """Return the sha256 of a file, which is read again only if its time or size has changed."""
    status = path.stat()
    return _digest_at(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _digest_at(path: Path, _changed: int, _size: int) -> str:
    return file_digest(path)


def short_digest(data: bytes) -> bytes:
    """Return a digest of `SHORT_DIGEST_BYTES` bytes, for use as a key in memory."""
    return hashlib.blake2b(data, digest_size=SHORT_DIGEST_BYTES).digest()
