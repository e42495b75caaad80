"""The cache of downloads: a folder for each file, shared by all corpora and folders of a user.

    CACHE/files/KEY/NAME            the file; KEY begins its sha256, or that of its address
    CACHE/files/KEY/download.json   where it came from, its size and sha256
    CACHE/unpacked/                 the contents of archives

Earlier versions kept a folder for each corpus, by default in data/downloads. Files there are used.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jtrans.corpora.download.contents import damage, unfit
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.files import cache_folder, read_table, text_digest, write_json

OLDER_CACHE = Path("data/downloads")
RECORD, OLDER_RECORDS = "download.json", "checksums.json"
KEY_LETTERS = 16


@dataclass(frozen=True)
class OriginalRecord:
    """Where an original file came from, and the size and digest of its contents."""

    file: str  # its name
    url: str  # its address; empty for a file of the user
    size: int  # bytes
    sha256: str

    def to_json(self) -> dict[str, str | int]:
        """Return it as an entry of the provenance in corpus.json."""
        url = {"url": self.url} if self.url else {}
        return {"path": self.file, **url, "bytes": self.size, "sha256": self.sha256}


class Download(NamedTuple):
    """A downloaded file."""

    path: Path
    record: OriginalRecord


@dataclass(frozen=True)
class Store:
    """The downloads in one cache."""

    folder: Path  # the cache
    older: tuple[Path, ...] = ()  # where earlier versions put the files of a corpus

    @classmethod
    def of(cls, corpus: str) -> Store:
        """Return the user's store, which also finds what earlier versions kept for a corpus."""
        return cls(cache_folder(), (cache_folder() / corpus, OLDER_CACHE / corpus))

    def path(self, mirror: Mirror) -> Path:
        """Return where the file of a mirror belongs."""
        key = mirror.sha256 or text_digest(mirror.url)
        return self.folder / "files" / key[:KEY_LETTERS] / mirror.file

    def find(self, source: OriginalFile, *, thoroughly: bool = False) -> Download | None:
        """Return a file from the cache; `thoroughly` rules out damaged ones of earlier versions."""
        usable = filter(None, map(self._usable, source.mirrors))
        for download in usable:
            is_older = thoroughly and download.path.parent in self.older
            if not (is_older and damage(download.path, download.record.file)):
                return download
        return None

    def earlier(self, mirror: Mirror) -> OriginalRecord | None:
        """Return the record of the last download from an address, even if the file is gone."""
        return _as_record(mirror.file, read_table(self.path(mirror).parent / RECORD))

    def keep(self, mirror: Mirror, part: Path, sha256: str) -> Download:
        """Give a complete file its name, and record it."""
        record = OriginalRecord(mirror.file, mirror.url, part.stat().st_size, sha256)
        path = self.path(mirror)
        part.replace(path)
        write_json(path.parent / RECORD, asdict(record))
        return Download(path, record)

    def _usable(self, mirror: Mirror) -> Download | None:
        records = {self.path(mirror): self.earlier(mirror)}
        for folder in self.older:
            record = read_table(folder / OLDER_RECORDS).get(mirror.file)
            records[folder / mirror.file] = _as_record(mirror.file, record)
        for path, record in records.items():
            if (
                record
                and mirror.sha256 in ("", record.sha256)
                and path.is_file()
                and path.stat().st_size == record.size
                and not unfit(mirror, path)
            ):
                return Download(path, record)
        return None


def _as_record(file: str, values: Any) -> OriginalRecord | None:
    try:
        return OriginalRecord(file, str(values["url"]), int(values["size"]), str(values["sha256"]))
    except (KeyError, TypeError, ValueError):
        return None
