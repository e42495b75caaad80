"""Downloads with checksums, retries and mirrors.

A file arrives as `FILE.part` and gets its final name only when its length, its sha256 and its kind
are right. A partial file survives dropped connections, retries and new processes, and is resumed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.download.contents import damage, unfit
from jtrans.corpora.download.store import Download, Store
from jtrans.corpora.download.transfer import RefusedError, StoppedError, transfer
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.errors import JtransError, WorkError
from jtrans.files import OFFLINE, disk_errors, file_digest, is_offline
from jtrans.locks import exclusive
from jtrans.progress import Progress, Silent


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to retry."""

    attempts: int = 4  # attempts at one address without progress, before the next address
    first_pause_seconds: float = 1.0  # the pause before the second try; doubled each time
    longest_pause_seconds: float = 60.0  # the limit, even if a server asks for more (Retry-After)
    timeout_seconds: float = 30.0  # how long to wait for the next byte
    other_process_seconds: float = 3600.0  # how long to wait for another process's download
    sleep: Callable[[float], None] = time.sleep  # the function that waits

    def pause_seconds(self, failures: int, requested: float | None) -> float:
        """Return how long to wait before the next try."""
        seconds = requested or self.first_pause_seconds * 2 ** (failures - 1)
        return min(seconds, self.longest_pause_seconds)


def fetch(
    source: OriginalFile,
    store: Store,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> Download:
    """Download one file into `store`, unless the store has it.

    Raises:
        JtransError: downloading is forbidden (JTRANS_OFFLINE).
        WorkError: no mirror delivered the file, the disk is full, or another process is still
            downloading the file after a long wait.
    """
    progress, patience = progress or Silent(), patience or Patience()
    if (download := store.find(source, thoroughly=True)) is not None:
        return download
    if is_offline():
        raise JtransError(
            f"{source.file} is missing, and {OFFLINE} forbids downloading it",
            hint=f"unset {OFFLINE}, or name the folder that holds the file: "
            "jtrans prepare NAME --from FOLDER",
            kind="download.offline",
        )
    tried = []
    with disk_errors(store.folder):
        for mirror in source.mirrors:
            try:
                return _from_mirror(source, mirror, store, progress, patience)
            except RefusedError as refusal:
                tried.append(f"{mirror.url} ({refusal})")
                progress.warn(f"{mirror.url}: {refusal}")
    raise WorkError(
        f"cannot download {source.file}; tried {'; '.join(tried)}",
        hint=f"get {' or '.join(source.names)} in another way, put it into a folder and "
        "name that: jtrans prepare NAME --from FOLDER",
        kind="download.failed",
    )


def _from_mirror(
    source: OriginalFile, mirror: Mirror, store: Store, progress: Progress, patience: Patience
) -> Download:
    """Download from one address, trying again while there is progress."""
    path = store.path(mirror)
    part = path.with_name(f"{path.name}.part")
    with alone(part, progress, patience.other_process_seconds):
        if (download := store.find(source, thoroughly=True)) is not None:
            return download  # another process finished it while we waited
        started, failures, restarts = time.monotonic(), 0, 0
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                transfer(mirror, part, timeout=patience.timeout_seconds, progress=progress)
                digest = _check(mirror, part, is_fresh=before == 0)
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
        return _finish(mirror, part, digest, store, time.monotonic() - started, progress)


def _check(mirror: Mirror, part: Path, *, is_fresh: bool) -> str:
    """Return the sha256 of a complete file; delete it and raise if it is not the file wanted."""
    digest = file_digest(part)
    message = unfit(mirror, part)
    if message is None and mirror.sha256 and digest != mirror.sha256:
        message = f"wrong contents: sha256 {digest[:12]}..., not {mirror.sha256[:12]}..."
    if message is None and not mirror.sha256:
        message = damage(part, mirror.file)
    if message is None:
        return digest
    forget(part)
    if is_fresh:
        raise RefusedError(message)
    raise StoppedError(message, is_restart=True)  # assembled from two transfers: worth one retry


def _finish(
    mirror: Mirror, part: Path, sha256: str, store: Store, seconds: float, progress: Progress
) -> Download:
    earlier = store.earlier(mirror)
    with part.open("r+b") as handle:  # Windows syncs no file that is opened for reading
        os.fsync(handle.fileno())
    download = store.keep(mirror, part, sha256)
    forget(part)
    size = download.record.size
    rate = size / 1e6 / max(seconds, 1e-3)
    progress.say("Downloaded", f"{mirror.file} {size / 1e6:,.1f} MB ({rate:,.1f} MB/s)")
    if not mirror.sha256:
        progress.say("Recorded", f"no checksum was known: sha256 {sha256}")
        if earlier is not None and earlier.sha256 != sha256:
            progress.warn(f"{mirror.file} is not the file of the last download (different sha256)")
    return download


def forget(part: Path) -> None:
    """Delete a partial download and its metadata."""
    part.unlink(missing_ok=True)
    part.with_name(f"{part.name}.json").unlink(missing_ok=True)


def alone(
    path: Path, progress: Progress, patience_seconds: float = 3600.0
) -> contextlib.AbstractContextManager[None]:
    """Keep other processes from writing a file or folder; wait for one that does, or raise."""
    owner_file = path.with_name(f"{path.name}.lock.json")
    name = path.name.removesuffix(".part")
    if owner_file.exists():
        progress.say("Waiting", f"for another process that is getting {name}, if it still runs")
    return exclusive(
        owner_file,
        lambda owner: WorkError(
            f"{owner} is getting {name}",
            hint="wait for it, then run the same command again",
            kind="download.busy",
        ),
        patience_seconds=patience_seconds,
    )
