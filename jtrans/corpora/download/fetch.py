"""Downloads with checksums, retries and mirrors.

A file arrives as `FILE.part` and gets its final name only when its length and sha256 are right. A
partial file survives dropped connections, retries and new processes, and is resumed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.download.transfer import RefusedError, StoppedError, transfer
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.errors import JtransError, WorkError
from jtrans.files import disk_errors, exclusive, file_digest, read_json, write_json
from jtrans.progress import Progress, Silent

OFFLINE, CACHE = "JTRANS_OFFLINE", "JTRANS_CACHE"
CHECKSUMS = "checksums.json"


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to retry."""

    attempts: int = 4  # tries of one address without progress, before the next address
    first_pause_seconds: float = 1.0  # the pause before the second try; doubled each time
    longest_pause_seconds: float = 60.0  # the limit, even if a server asks for more (Retry-After)
    timeout_seconds: float = 30.0  # how long to wait for the next byte
    sleep: Callable[[float], None] = time.sleep  # the function that waits

    def pause_seconds(self, failures: int, requested: float | None) -> float:
        """Return how long to wait before the next try."""
        seconds = requested or self.first_pause_seconds * 2 ** (failures - 1)
        return min(seconds, self.longest_pause_seconds)


def downloads_folder() -> Path:
    """Return the folder of downloads: JTRANS_CACHE, else data/downloads."""
    return Path(os.environ.get(CACHE) or "data/downloads")


def recorded(folder: Path) -> dict[str, dict[str, str | int]]:
    """Return the downloads recorded in `folder`: sha256, size and address by file name."""
    path = folder / CHECKSUMS
    return dict(read_json(path)) if path.is_file() else {}


def present(source: OriginalFile, folder: Path) -> Path | None:
    """Return the downloaded file, if it is in `folder` with the size it had on arrival."""
    for name, record in recorded(folder).items():
        path = folder / name
        if name in source.names and path.is_file() and path.stat().st_size == record["size"]:
            return path
    return None


def fetch(
    source: OriginalFile,
    folder: Path,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> Path:
    """Download one file into `folder`, unless it is there.

    Its sha256 is recorded in `folder`/checksums.json. Where the catalogue has none, later
    downloads must match the recorded one.

    Raises:
        JtransError: downloading is forbidden (JTRANS_OFFLINE).
        WorkError: no mirror delivered the file, the disk is full, or another process is
            downloading the file.
    """
    progress, patience = progress or Silent(), patience or Patience()
    if (path := present(source, folder)) is not None:
        return path
    if os.environ.get(OFFLINE, "0") not in ("", "0"):
        raise JtransError(
            f"{source.file} is not here, and {OFFLINE} forbids downloading it",
            hint=f"unset {OFFLINE}, or name the folder that holds the file with --from",
            kind="download.offline",
        )
    tried = []
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for mirror in source.mirrors:
            try:
                return _from_mirror(mirror, folder, progress, patience)
            except RefusedError as refusal:
                tried.append(f"{mirror.url} ({refusal})")
                progress.warn(f"{mirror.url}: {refusal}")
    raise WorkError(
        f"cannot download {source.file}; tried {'; '.join(tried)}",
        hint=f"get {' or '.join(source.names)} in another way, put it into a folder and add "
        "--from FOLDER",
        kind="download.failed",
    )


def _from_mirror(mirror: Mirror, folder: Path, progress: Progress, patience: Patience) -> Path:
    """Download from one address, trying again while there is progress."""
    known = recorded(folder).get(mirror.file, {})
    sha256 = mirror.sha256 or str(known.get("sha256", ""))
    part = folder / f"{mirror.file}.part"
    with _exclusive(part):
        started, failures, restarts = time.monotonic(), 0, 0
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                transfer(mirror, part, timeout=patience.timeout_seconds, progress=progress)
                _check(part, sha256, is_fresh=before == 0)
                break
            except StoppedError as stop:
                gained = part.exists() and part.stat().st_size > before
                restarts += stop.is_restart
                failures = 1 if gained and not stop.is_restart else failures + 1
                if failures >= patience.attempts or restarts > 1:
                    raise RefusedError(str(stop)) from stop
                pause = patience.pause_seconds(failures, stop.wait_seconds)
                progress.say("Retrying", f"{mirror.file} in {pause:g} s: {stop}")
                patience.sleep(pause)
        return _finish(mirror, part, folder, sha256, time.monotonic() - started, progress)


def _check(part: Path, sha256: str, *, is_fresh: bool) -> None:
    """Compare the checksum, and delete a file that does not match."""
    if not sha256 or (digest := file_digest(part)) == sha256:
        return
    forget(part)
    message = f"wrong contents: sha256 {digest[:12]}..., not {sha256[:12]}..."
    if is_fresh:
        raise RefusedError(message)
    raise StoppedError(message, is_restart=True)  # assembled from two transfers: worth one retry


def _finish(
    mirror: Mirror, part: Path, folder: Path, sha256: str, seconds: float, progress: Progress
) -> Path:
    size, path = part.stat().st_size, folder / mirror.file
    digest = sha256 or file_digest(part)
    with part.open("rb") as handle:
        os.fsync(handle.fileno())
    part.replace(path)
    forget(part)
    record = {"sha256": digest, "size": size, "url": mirror.url}
    write_json(folder / CHECKSUMS, {**recorded(folder), mirror.file: record})
    rate = size / 1e6 / max(seconds, 1e-3)
    progress.say("Downloaded", f"{mirror.file} {size / 1e6:,.1f} MB ({rate:,.1f} MB/s)")
    if not sha256:
        progress.say("Recorded", f"no checksum was known: sha256 {digest} in {folder / CHECKSUMS}")
        if mirror.size and mirror.size != size:
            progress.warn(f"{mirror.file} has {size:,} bytes; the catalogue says {mirror.size:,}")
    return path


def forget(part: Path) -> None:
    """Delete a partial download and its metadata."""
    part.unlink(missing_ok=True)
    part.with_name(f"{part.name}.json").unlink(missing_ok=True)


def _exclusive(part: Path) -> contextlib.AbstractContextManager[None]:
    """Keep other processes from writing the same partial file."""
    return exclusive(
        part.with_name(f"{part.name}.lock.json"),
        lambda owner: WorkError(
            f"{owner} is downloading {part.name.removesuffix('.part')}",
            hint="wait for it, then run the same command again",
            kind="download.busy",
        ),
    )
