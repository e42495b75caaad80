"""Checks that a download is the wanted file, not a login page, a truncated or a different file."""

from __future__ import annotations

import bz2
import collections
import gzip
import lzma
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from jtrans.corpora.download.unpack import CHUNK_BYTES, DAMAGES, is_archive
from jtrans.corpora.entry import Mirror

# The bytes with which a file must begin, by the ending of its name.
MAGIC = {
    (".gz", ".tgz"): b"\x1f\x8b",
    (".xz", ".txz"): b"\xfd7zXZ\0",
    (".bz2", ".tbz2"): b"BZh",
    (".zst",): b"\x28\xb5\x2f\xfd",
    (".zip",): b"PK",
}
# How much of the beginning of a file `wrong_kind` needs.
HEAD_BYTES = 512
PAGES = ("text/html", "application/xhtml+xml")
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)


def wrong_kind(mirror: Mirror, head: bytes, content_type: str = "") -> str | None:
    """Return why a file that begins with `head` is not the file of `mirror`; None if it may be.

    Many servers send wrong content types, so `content_type` counts only for a file that neither a
    checksum nor its first bytes identify.
    """
    name = mirror.file.lower()
    if name.endswith((".htm", ".html")):
        return None
    if _PAGE.match(head):
        return "sends a web page instead of the file"
    for endings, magic in MAGIC.items():
        if name.endswith(endings):
            return None if head.startswith(magic) else f"sends something that is not {endings[0]}"
    if content_type in PAGES and not mirror.sha256:
        return f"sends {content_type} instead of the file"
    return None


def unfit(mirror: Mirror, path: Path) -> str | None:
    """Return why a file on disk cannot be the file of `mirror`, by its size and first bytes."""
    size = path.stat().st_size
    if mirror.size and size != mirror.size:
        return f"has {size:,} bytes instead of {mirror.size:,}"
    with path.open("rb") as handle:
        return wrong_kind(mirror, handle.read(HEAD_BYTES))


def damage(path: Path, name: str) -> str | None:
    """Read the packed file or archive `name`, at `path`, to its end; return any fault."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    try:
        if name.lower().endswith(".zip"):
            with zipfile.ZipFile(path) as zip_file:
                broken = zip_file.testzip()
            return broken and f"{broken} inside it is damaged"
        if is_archive(name):
            with tarfile.open(path, "r:*") as tar_file:
                collections.deque(tar_file, maxlen=0)
        elif opener := openers.get(Path(name.lower()).suffix):
            with opener(path) as unpacked:
                while unpacked.read(CHUNK_BYTES):
                    pass
    except (*DAMAGES, OSError) as error:
        reason = str(error).partition(":\n")[0]  # tarfile lists what it tried in further lines
        return f"is damaged ({reason})"
    return None
