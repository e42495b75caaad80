"""The checkpoints of a run: writing, choosing and removing them."""

from __future__ import annotations

import contextlib
import logging
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jtrans.digits import whole_number
from jtrans.errors import CheckpointError, JtransError, did_you_mean
from jtrans.files import file_digest, read_json, whole_folder, write_json
from jtrans.runs.checkpoint import SEAL, WEIGHTS, Checkpoint, first_undamaged, step_name

POINTERS = "pointers.json"
WINDOW = "window"  # selects several checkpoints, see `CheckpointFolder.window`
AVERAGING_SECONDS = 3600.0  # the longest that writing an average takes
_log = logging.getLogger(__name__)


class CheckpointFolder:
    """The checkpoints in the folder of a run, and which of them is the last and the best."""

    def __init__(self, folder: Path, chosen: str | None = None) -> None:
        self.folder = folder
        self.chosen = chosen  # the checkpoint that is used whatever is asked for: RUN@CHECKPOINT

    def with_chosen(self, name: str) -> str:
        """Return a name of the run, followed by the checkpoint that was named with it."""
        return f"{name}@{self.chosen}" if self.chosen else name

    @property
    def checkpoints_folder(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of training, oldest first.

        Only names that training gives count: ``step-12-old`` is a folder of the user's.
        """
        named = [Checkpoint(path.name, path) for path in self.checkpoints_folder.glob("step-*")]
        numbered = [(each.update, each) for each in named if each.folder.is_dir()]
        ours = [(n, each) for n, each in numbered if n is not None and each.name == step_name(n)]
        return [each for _, each in sorted(ours, key=lambda pair: pair[0])]

    def saved_names(self) -> list[str]:
        """Return the names of all checkpoints, averages included, in alphabetical order."""
        # a folder whose name begins with a dot is still being written
        files = self.checkpoints_folder.glob("[!.]*/*.safetensors")
        return sorted({path.parent.name for path in files})

    @contextlib.contextmanager
    def new_checkpoint(self, name: int | str) -> Iterator[Path]:
        """Yield an empty folder that becomes the checkpoint of that update, or of that name."""
        folder_name = step_name(name) if isinstance(name, int) else name
        with whole_folder(self.checkpoints_folder / folder_name) as temporary:
            yield temporary
            digests = {path.name: file_digest(path) for path in sorted(temporary.iterdir())}
            write_json(temporary / SEAL, digests)

    def remove_leftovers(self) -> None:
        """Delete checkpoints whose writing was interrupted; the caller holds the lock of training.

        A checkpoint that was being replaced is put back. Averages are written without that lock,
        so theirs are left alone while they are young.
        """
        for folder in self.checkpoints_folder.glob(".*.*"):
            name, _, end = folder.name[1:].rpartition(".")
            if end == "tmp":
                name = name.rpartition(".")[0]
            elif end != "removed" and not (folder / "old").is_dir():
                continue
            if not name.startswith("step-") and _age_seconds(folder) < AVERAGING_SECONDS:
                continue
            if (folder / "old").is_dir() and not (self.checkpoints_folder / name).exists():
                (folder / "old").rename(self.checkpoints_folder / name)
            shutil.rmtree(folder, ignore_errors=True)
        for file in self.checkpoints_folder.glob(f".{POINTERS}.*"):
            file.unlink(missing_ok=True)

    def pointers(self) -> dict[str, Any]:
        """Return the names of the checkpoints `last` and `best`, the best value and the window.

        A file that names anything but folders beside it is ignored.
        """
        return self._read_pointers() or {}

    @property
    def has_damaged_pointers(self) -> bool:
        """Whether the file with the names of the last and the best checkpoint is damaged."""
        return self._read_pointers() is None

    def _read_pointers(self) -> dict[str, Any] | None:
        path = self.checkpoints_folder / POINTERS
        try:
            pointers = read_json(path) if path.exists() else {}
        except JtransError:
            return None
        if not isinstance(pointers, dict):
            return None
        names = (pointers.get("last"), pointers.get("best"))
        if not all(
            name is None or (isinstance(name, str) and Path(name).name == name) for name in names
        ):
            return None
        return pointers if _is_window(pointers.get("window")) else None

    def set_pointers(self, **pointers: Any) -> None:
        """Change some pointers, such as `last`; the others stay."""
        write_json(self.checkpoints_folder / POINTERS, {**self.pointers(), **pointers})

    def remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Delete a checkpoint's folder, renamed first so that no half of a checkpoint is left."""
        doomed = checkpoint.folder.with_name(f".{checkpoint.name}.removed")
        with contextlib.suppress(OSError):
            checkpoint.folder.rename(doomed)
        for folder in (doomed, checkpoint.folder):
            shutil.rmtree(folder, ignore_errors=True)

    def checkpoint(self, selector: str = "best") -> Checkpoint:
        """Return a checkpoint: the one that was named with the run, else by the selector.

        Args:
            selector: `best`, `last`, the number of an update, or the name of an average; before
                the first validation `best` is the last one. If the best or the last one is
                damaged or missing, a warning is logged and the newest of the others returned.

        Raises:
            CheckpointError: there is no such checkpoint, or none that is undamaged.
        """
        selector = self.chosen or selector
        if selector in ("best", "last"):
            pointers = self.pointers()
            name = pointers.get(selector) or pointers.get("last")
            pointed = [Checkpoint(name, self.checkpoints_folder / name)] if name else []
            others = [each for each in reversed(self.checkpoints()) if each.name != name]
            if selector == "best" and others and not name:
                path = self.checkpoints_folder / POINTERS
                _log.warning("%s is missing or damaged: using %s", path, others[0].name)
            if pointed or others:
                return first_undamaged([*pointed, *others], lambda each: each.verify(WEIGHTS))
        if selector == WINDOW:
            raise CheckpointError(
                "a window has several checkpoints, but only one can be used here",
                where=str(self.folder),
                hint=f"name one of {', '.join(str(each.update) for each in self.window())}, or "
                "best; jtrans score accepts a window",
                kind="checkpoint.several",
            )
        update = whole_number(selector)
        name = selector if update is None else step_name(update)
        folder = self.checkpoints_folder / name
        is_name = folder.name == name and folder.parent == self.checkpoints_folder
        if is_name and (folder / WEIGHTS).is_file():
            return Checkpoint(name, folder)
        names = self.saved_names()
        near = did_you_mean(selector, ["best", "last", *names])
        guess = f"did you mean {near}? " if near else ""
        raise CheckpointError(
            f"the run has no checkpoint {selector}" if names else "the run has no checkpoint yet",
            where=str(self.folder),
            hint=f"{guess}available: best, last, {', '.join(names)}"
            if names
            else f"train it: jtrans train {shlex.quote(str(self.folder / 'config.toml'))}",
            kind="checkpoint.missing",
        )

    def window(self) -> list[Checkpoint]:
        """Return the checkpoints of the consecutive validations with the best mean BLEU.

        Raises:
            CheckpointError: there is no such window, or a checkpoint of it is missing.
        """
        window = self.pointers().get("window")
        if not isinstance(window, dict):
            raise CheckpointError(
                "the run keeps no window of validations",
                where=str(self.folder),
                hint="use --checkpoint best; a run that is trained with --set "
                "training.keep.window=21 keeps one",
                kind="checkpoint.no-window",
            )
        if not window.get("updates"):
            validations = len(window.get("recent", ()))
            raise CheckpointError(
                f"a window has {window.get('size')} consecutive validations, and the run has only "
                f"{validations} so far",
                where=str(self.folder),
                hint="train it longer, or use --checkpoint best; a smaller window needs fewer: "
                f"--set training.keep.window={max(2, validations)}",
                kind="checkpoint.no-window",
            )
        every = CheckpointFolder(self.folder)  # also if one was named with the run
        return [every.checkpoint(str(update)) for update in window["updates"]]


def _is_window(value: Any) -> bool:
    """Return whether a value is a window of validations as training writes it, or None."""
    return value is None or (
        isinstance(value, dict)
        and isinstance(value.get("size"), int)
        and isinstance(value.get("updates"), list)
        and all(isinstance(update, int) for update in value["updates"])
    )


def _age_seconds(path: Path) -> float:
    """Return the time since a file or a folder was written; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
