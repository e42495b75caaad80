"""The work folder: what a preparation has done so far, so that a killed one can go on.

It stands beside the folder to be made, as `.NAME.work`, and goes when that folder is complete.
Each file in it appears whole under its name, and what is there is not made again. Which text and
which options it belongs to stands in `key`: work for another request is thrown away.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.errors import CorpusError
from jtrans.files import disk_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A killed preparation's workers need a moment to notice, and hold its lock so long.
PATIENCE_SECONDS = 5.0


class WorkFolder:
    """The work folder of `target`.

    Args:
        target: the folder to be made.
        key: what decides the result; work done for another key is no use.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.named = target
        self.target = Path(os.path.realpath(target))  # a link stays, what it leads to is made
        self.folder = self.target.with_name(f".{self.target.name}.work")
        self.key = key
        self.is_continued = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[WorkFolder]:
        """Hold the folder: made where missing, removed after an error nothing can continue from.

        After an interrupt, or when memory ran out, it stays, and the next preparation goes on
        with it.

        Raises:
            CorpusError: another process is preparing the same folder.
            WorkError: the disk is full.
        """
        made = _make_parents(self.folder)
        with disk_errors(self.named), _locked(self.folder, self.named):
            try:
                self._begin()
                yield self
            except Exception as error:  # not an interrupt
                if not _can_continue(error):
                    self.remove()
                    for folder in made:
                        with contextlib.suppress(OSError):
                            folder.rmdir()
                raise

    def _begin(self) -> None:
        key = self.folder / "key"
        if key.is_file() and key.read_text(encoding="utf-8") == self.key:
            self.is_continued = True
        else:
            for path in self.folder.iterdir():
                if path.name != "lock":
                    _remove(path)
            write_bytes(key, self.key.encode("utf-8"))
        self.restore()

    def restore(self) -> None:
        """Put back what `publish` had moved away when it was killed."""
        old = self.folder / "old"
        if old.exists() and not self.target.exists() and not (self.folder / "made").exists():
            old.rename(self.target)

    def publish(self, made: Path) -> None:
        """Let the folder `made` appear as the target, in place of one that is there."""
        old = self.folder / "old"
        if self.target.exists():
            if old.exists():
                shutil.rmtree(old)
            self.target.rename(old)
        made.rename(self.target)

    def remove(self) -> None:
        """Remove the work folder; what `publish` moved away and did not replace comes back."""
        old = self.folder / "old"
        if old.exists() and not self.target.exists():
            old.rename(self.target)
        shutil.rmtree(self.folder, ignore_errors=True)


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file that appears whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array that appears whole."""
    # np.save writing to a file itself does not say why it failed (no errno when the disk is full)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_bytes(path, buffer.getbuffer())


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines, none of which holds a line feed, to a file that appears whole."""
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))


def read_lines(path: Path) -> list[str]:
    """Read what `write_lines` wrote."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


@contextlib.contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows has no such lock: there two at once are the user's affair
        yield
        return
    path = folder / "lock"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                raise CorpusError(
                    f"another jtrans prepare is at work on {target}",
                    hint="wait for it, or choose another --out",
                    kind="corpus.busy",
                ) from None
        os.close(handle)
        time.sleep(0.1)
    try:
        yield
    finally:
        os.close(handle)


def _can_continue(error: Exception) -> bool:
    """Say whether the same command may get further next time, with fewer workers or more memory."""
    return isinstance(error, MemoryError) or getattr(error, "kind", "") == "work.worker"


def _make_parents(folder: Path) -> list[Path]:
    """Make the folder; return what was made, innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
