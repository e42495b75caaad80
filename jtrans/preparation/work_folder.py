"""The work folder of a preparation, from which it continues after it was killed.

It exists beside the output folder, as `.NAME.work`, until that folder is complete. Each file in it
is written whole or not at all, and only once; the marker of a finished step holds the digests of
its files, because a power cut may leave them cut off. The file `key` identifies the text and
options: work for another request is discarded.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError, JtransError
from jtrans.files import behind_links, disk_errors, file_digest, irreplaceable, write_bytes
from jtrans.locks import exclusive

PATIENCE_SECONDS = 5.0
# How long the workers of a killed preparation may still write.
SETTLE_SECONDS = 0.5


class WorkFolder:
    """The work folder of `target`.

    Args:
        target: the output folder.
        key: a digest of all that determines the result; work for another key is discarded.

    Attributes:
        folder: where the work is kept.
        result: the folder in it that becomes `target`.
        is_continued: whether the folder held earlier work for the same key.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.named = target
        self.target = Path(os.path.realpath(target))  # a link stays; its target is written
        self.folder = self.target.parent / f".{self.target.name}.work"
        self.result = self.folder / "made"
        self.key = key
        self.is_continued = False

    def fill(self, make: Callable[[WorkFolder], None], is_there: Callable[[], bool]) -> bool:
        """Make the prepared corpus, unless it is there; return whether it was made.

        Args:
            make: makes `result`, unless earlier work has.
            is_there: whether the target holds this corpus; raises an error if it holds anything
                else that must not be replaced.

        Raises:
            CorpusError: what `is_there` raises, or another process is preparing the same folder.
            WorkError: the disk is full.
        """
        before = self._state()
        if is_there():
            self._remove_finished()
            return False
        with self.opened():
            # another process may have finished while this one waited for it
            if self._state() != before and is_there():
                self._remove()
                return False
            make(self)
            self.publish()
        return True

    def _remove_finished(self) -> None:
        """Remove what a process left that was killed while it cleaned up after publishing."""
        lock, key = self._lock_file(), self.folder / "key"
        left = any(path.exists() for path in (self.folder, lock, lock.with_suffix("")))
        if not left or not self.target.exists():
            return
        # the key may be removed already; with another one work on another request can continue
        if not key.is_file() or key.read_bytes() == self.key.encode("utf-8"):
            with contextlib.suppress(JtransError), self._exclusive():  # others may need it
                self._remove()

    def _state(self) -> tuple[int, int] | None:
        """Return what tells the target's corpus from any made later; None if there is none."""
        try:
            stat = (self.target / "corpus.json").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    @contextlib.contextmanager
    def opened(self) -> Iterator[WorkFolder]:
        """Create the folder if it is missing, and keep other processes out of it.

        After an error it is removed, unless work can continue from it: after an interrupt, or
        when memory ran out, it stays for the next preparation.

        Raises:
            CorpusError: another process is preparing the same folder.
            WorkError: the disk is full.
        """
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            with disk_errors(self.named), self._exclusive():
                self.folder.mkdir(exist_ok=True)
                try:
                    self._begin()
                    yield self
                except Exception as error:  # not an interrupt
                    # with fewer workers or more memory the same command may get further
                    is_short = isinstance(error, MemoryError)
                    if not is_short and getattr(error, "kind", "") != "work.worker":
                        self._remove()
                    raise
        except Exception as error:
            for folder in missing:  # innermost first; those that hold something stay
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if isinstance(error, JtransError) and error.kind == "disk.full":
                error.hint = f"{error.hint}, which starts from the beginning"
            raise

    def _lock_file(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.lock.json")

    def _exclusive(self) -> contextlib.AbstractContextManager[None]:
        return exclusive(
            self._lock_file(),
            lambda owner: CorpusError(
                f"{owner} is preparing {self.named}",
                hint="wait for it, or choose another --out",
                kind="corpus.busy",
            ),
            patience_seconds=PATIENCE_SECONDS,
            settle_seconds=SETTLE_SECONDS,
        )

    def _begin(self) -> None:
        """Keep work for the same key, without a damaged result; discard any other work."""
        key = self.folder / "key"
        if key.is_file() and key.read_bytes() == self.key.encode("utf-8"):
            self.is_continued = True
        else:
            self._restore()
            for path in self.folder.iterdir():
                _remove(path)
            write_bytes(key, self.key.encode("utf-8"), is_durable=False)
        if self.result.exists() and not _is_whole(self.result):
            _remove(self.result)
        if not self.result.exists():
            self._restore()

    def publish(self) -> None:
        """Move `result` to the target, replacing any other, and remove the work folder."""
        old = self.folder / "old"
        if self.target.exists():
            if old.exists():
                shutil.rmtree(old)
            self.target.rename(old)
        self.result.rename(self.target)
        self._remove()

    def _restore(self) -> None:
        """Put back a target that `publish` moved away and did not replace."""
        old = self.folder / "old"
        if old.exists() and not self.target.exists():
            old.rename(self.target)

    def _remove(self) -> None:
        self._restore()
        shutil.rmtree(self.folder, ignore_errors=True)


def check_place(folder: Path) -> None:
    """Check, before the work rather than after it, that the output folder can be created.

    Raises:
        JtransError: it cannot.
    """
    real = Path(os.path.realpath(behind_links(folder)))
    if problem := irreplaceable(folder):
        raise CorpusError(
            f"{folder} cannot be replaced by the finished corpus: {problem}",
            hint=f"choose a folder inside it: --out {folder / 'corpus'}",
            kind="corpus.place",
        )
    place = real.parent  # the work folder is there, too
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        problem = "no permission to write" if place.is_dir() else "not a folder:"
        raise CorpusError(
            f"cannot create {folder}: {problem} {place}",
            hint="choose another --out",
            kind="corpus.place",
        )


def mark_done(marker: Path, files: Iterable[Path], record: Any = None) -> None:
    """Write the marker of a finished step, with the digests of its files beside it."""
    digests = {path.name: file_digest(path) for path in files}
    text = json.dumps({"files": digests, "record": record})
    write_bytes(marker, text.encode("ascii"), is_durable=False)


def is_done(marker: Path) -> bool:
    """Return whether a marker exists and the files of its step are unchanged."""
    try:
        files = json.loads(marker.read_bytes())["files"]
        return all(file_digest(marker.with_name(name)) == files[name] for name in files)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_record(marker: Path) -> Any:
    """Return the record in the marker of a finished step."""
    return json.loads(marker.read_bytes())["record"]


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, whole or not at all."""
    # np.save to a file would raise an error without errno when the disk is full
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_bytes(path, buffer.getvalue(), is_durable=False)


def _is_whole(result: Path) -> bool:
    try:
        PreparedCorpus.open(result).check_files()
    except CorpusError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
