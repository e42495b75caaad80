"""The run directory, whose layout is defined here alone.

config.toml          resolved: every default written out
pipeline.json        copied from the prepared corpus
target.words.gz      the same: how often each target word occurs in the training text
run.json             format version, data folder, fingerprints, parameters
checkpoints/step-00012000/{model.safetensors, state.safetensors, state.json, sha256.json}
checkpoints/pointers.json    names of the last and the best checkpoint, the window of the best
log.jsonl            one JSON object per logged event
translations/, analysis/     results computed from a checkpoint, cached
reports/             figures, tables and pages
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from jtrans.config import Config, SystemConfig, build_config, key_lines
from jtrans.errors import CheckpointError, JtransError, did_you_mean, name_hint
from jtrans.files import (
    disk_errors,
    exclusive,
    file_digest,
    read_json,
    whole_folder,
    write_bytes,
    write_json,
    write_text,
)
from jtrans.text.pipeline import TextPipeline
from jtrans.text.word_counts import read_word_counts

FORMAT = 1
RUNS = Path("runs")
# the files of a checkpoint; the last has the digests of the others
WEIGHTS, OPTIMISER, STATE = "model.safetensors", "state.safetensors", "state.json"
SEAL = "sha256.json"
WINDOW = "window"  # selects several checkpoints, see `Run.window`
Used = TypeVar("Used")
_log = logging.getLogger(__name__)
WATCH_SECONDS = 20.0  # how long a lock left by another host is watched for signs of life


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of a run."""

    name: str  # step-00012000, or that of an average
    folder: Path

    @property
    def update(self) -> int | None:
        """The number of updates done, None for an average."""
        match = re.fullmatch(r"step-(\d+)", self.name)
        return int(match[1]) if match else None

    @property
    def weights(self) -> Path:
        """The file of the model's weights."""
        return self.folder / WEIGHTS

    def verify(self, *names: str) -> Checkpoint:
        """Check files against their digests, where there are any, and return the checkpoint.

        Raises:
            CheckpointError: a file is missing, or was changed or truncated.
        """
        seal = self.folder / SEAL
        for name in names:
            file = self.folder / name
            if not file.is_file():
                raise damaged(file, "the file is missing")
            if not seal.exists():
                continue
            try:
                digests = dict(read_json(seal))
            except (JtransError, TypeError, ValueError) as error:
                raise damaged(seal, "not valid JSON") from error
            status = file.stat()
            if digests.get(name) != _digest(file, status.st_mtime_ns, status.st_size):
                raise damaged(file, "its contents have changed since it was written")
        return self


@functools.lru_cache(maxsize=64)
def _digest(file: Path, _changed: int, _size: int) -> str:
    return file_digest(file)


def first_undamaged(checkpoints: Iterable[Checkpoint], use: Callable[[Checkpoint], Used]) -> Used:
    """Return what `use` returns for the first checkpoint for which it meets no damage.

    Raises:
        CheckpointError: all are damaged, or `use` met another fault.
    """
    faults: list[CheckpointError] = []
    for checkpoint in checkpoints:
        try:
            used = use(checkpoint)
        except CheckpointError as error:
            if error.kind != "checkpoint.damaged":
                raise
            faults.append(error)
            continue
        for fault in faults:
            _log.warning("%s (%s): using %s", fault.message, fault.where, checkpoint.name)
        return used
    raise faults[0]


def damaged(file: Path, fault: object) -> CheckpointError:
    """Return the error for a damaged file of a checkpoint."""
    return CheckpointError(
        f"the checkpoint is damaged: {fault}",
        where=str(file),
        hint="use another checkpoint (--checkpoint UPDATE), or train again (--restart)",
        kind="checkpoint.damaged",
    )


class Run:
    """One training run on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(
        cls,
        folder: Path,
        config: Config,
        pipeline: TextPipeline,
        info: Mapping[str, Any],
        *,
        replace: bool = False,
    ) -> Run:
        """Write the folder of a new run, whole or not at all.

        Args:
            folder: the folder; a link stays, and its target is written.
            config: the resolved configuration.
            pipeline: of the prepared corpus.
            info: more for run.json.
            replace: an existing run, whose lock the caller holds.

        Raises:
            JtransError: another process has created the run meanwhile.
        """
        try:
            with whole_folder(Path(os.path.realpath(folder)), replace=replace) as temporary:
                write_text(temporary / "config.toml", config.to_toml())
                pipeline.save(temporary / "pipeline.json")
                write_json(temporary / "run.json", {"format": FORMAT, **info})
                (temporary / "checkpoints").mkdir()
        except (JtransError, OSError) as error:
            if replace or not cls.exists(folder):
                raise
            raise JtransError(
                "another process has just created the run",
                where=str(folder),
                hint="once it has ended, the same command continues the run; or choose another "
                "--run",
                kind="run.locked",
            ) from error
        return cls(folder)

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Return whether `folder` holds a run."""
        return (folder / "run.json").is_file() and (folder / "config.toml").is_file()

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open an existing run.

        Raises:
            CheckpointError: there is none, or it has another format.
        """
        if not cls.exists(folder):
            raise CheckpointError(
                f"no run in {folder}",
                hint="create one with jtrans train RECIPE --data DIR --run DIR",
                kind="run.missing",
            )
        run = cls(folder)
        if run.info.get("format") != FORMAT:
            raise CheckpointError(
                f"the run has format {run.info.get('format')}, this jtrans reads {FORMAT}",
                where=str(folder),
                hint="use the jtrans version that wrote it, or train again",
                kind="run.format",
            )
        return run

    @property
    def name(self) -> str:
        """The run's name: its folder below runs/, or the folder's own name."""
        with contextlib.suppress(ValueError):
            return self.folder.resolve().relative_to(RUNS.resolve()).as_posix()
        return self.folder.name

    @cached_property
    def info(self) -> dict[str, Any]:
        """The contents of run.json."""
        path = self.folder / "run.json"
        info = read_json(path)
        if not isinstance(info, dict):
            raise CheckpointError(f"{path} is damaged: not an object", kind="file.damaged")
        return info

    @property
    def label_names(self) -> dict[str, list[str]]:
        """The names of the labels of source tokens that its model gives, by kind ("pos", "ner")."""
        return dict(self.info.get("labels") or {})

    @cached_property
    def pipeline(self) -> TextPipeline:
        """The text pipeline this run was trained with."""
        return TextPipeline.load(self.folder / "pipeline.json")

    def config(self, systems: Mapping[str, type[SystemConfig]]) -> Config:
        """Return the resolved configuration."""
        path = self.folder / "config.toml"
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"the run's configuration is damaged: {error}", where=str(path)
            ) from error
        return build_config(values, systems, where=str(path), origins=lambda: [key_lines([path])])

    @property
    def word_counts_path(self) -> Path:
        """The file with the counts of the target words of the training text."""
        return self.folder / "target.words.gz"

    def keep_word_counts(self, path: Path) -> None:
        """Copy the word counts of the prepared corpus, if it has them and the run does not."""
        if path.is_file() and not self.word_counts_path.is_file():
            write_bytes(self.word_counts_path, path.read_bytes())

    def word_counts(self) -> Counter[str] | None:
        """Count the target words of the training text; None where they were not kept."""
        return read_word_counts(self.word_counts_path)

    def update_info(self, **info: Any) -> None:
        """Add to run.json."""
        self.info.update(info)
        write_json(self.folder / "run.json", self.info)

    def update_config(self, config: Config) -> None:
        """Replace the resolved configuration: limits and rates may change when a run continues."""
        write_text(self.folder / "config.toml", config.to_toml())

    # Results

    def result_path(self, kind: Literal["translations", "analysis"], name: str) -> Path:
        """Return the file of the result cache for a kind and a name."""
        return self.folder / kind / name

    @property
    def reports_folder(self) -> Path:
        """The default folder of figures, tables and pages."""
        return self.folder / "reports"

    # Checkpoints

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

    @contextlib.contextmanager
    def new_checkpoint(self, name: int | str) -> Iterator[Path]:
        """Yield an empty folder that becomes the checkpoint of that update, or of that name."""
        folder_name = step_name(name) if isinstance(name, int) else name
        with whole_folder(self.checkpoints_folder / folder_name) as temporary:
            yield temporary
            digests = {path.name: file_digest(path) for path in sorted(temporary.iterdir())}
            write_json(temporary / SEAL, digests)

    def remove_leftovers(self) -> None:
        """Delete checkpoints whose writing was interrupted; the caller holds the lock.

        One that was being replaced is put back.
        """
        for folder in self.checkpoints_folder.glob(".step-*"):
            target = self.checkpoints_folder / folder.name[1:].split(".")[0]
            if (folder / "old").is_dir() and not target.exists():
                (folder / "old").rename(target)
            shutil.rmtree(folder, ignore_errors=True)

    def pointers(self) -> dict[str, Any]:
        """Return the names of the checkpoints `last` and `best`, and the best value.

        A file that names anything but folders here is as good as none.
        """
        path = self.checkpoints_folder / "pointers.json"
        try:
            pointers = read_json(path) if path.exists() else {}
        except JtransError:
            return {}
        if not isinstance(pointers, dict):
            return {}
        names = (pointers.get("last"), pointers.get("best"))
        if not all(
            name is None or (isinstance(name, str) and Path(name).name == name) for name in names
        ):
            return {}
        return pointers

    def set_pointers(self, **pointers: Any) -> None:
        """Change the checkpoints that `last` or `best` points to."""
        write_json(self.checkpoints_folder / "pointers.json", {**self.pointers(), **pointers})

    def remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Delete a checkpoint's folder."""
        shutil.rmtree(checkpoint.folder, ignore_errors=True)

    def checkpoint(self, selector: str = "best") -> Checkpoint:
        """Return a checkpoint.

        Args:
            selector: `best`, `last`, the number of an update, or the name of an average; `best`
                is the last one before the first validation. If the best or the last one is
                damaged or missing, a warning is logged and the newest of the others returned.

        Raises:
            CheckpointError: there is no such checkpoint, or none that is undamaged.
        """
        if selector in ("best", "last"):
            pointers = self.pointers()
            name = pointers.get(selector) or pointers.get("last")
            pointed = [Checkpoint(name, self.checkpoints_folder / name)] if name else []
            others = [each for each in reversed(self.checkpoints()) if each.name != name]
            if pointed or others:
                return first_undamaged([*pointed, *others], lambda each: each.verify(WEIGHTS))
        if selector == WINDOW:
            raise CheckpointError(
                "a window has several checkpoints, and here one is needed",
                where=str(self.folder),
                hint=f"one of {', '.join(str(each.update) for each in self.window())}, or best; "
                "jtrans score takes a window",
                kind="checkpoint.several",
            )
        name = step_name(int(selector)) if selector.isdecimal() else selector
        folder = self.checkpoints_folder / name
        is_name = folder.name == name and folder.parent == self.checkpoints_folder
        if is_name and (folder / WEIGHTS).is_file():
            return Checkpoint(name, folder)
        names = sorted(path.parent.name for path in self.checkpoints_folder.glob("*/*.safetensors"))
        near = did_you_mean(selector, ["best", "last", *names])
        guess = f"did you mean {near}? " if near else ""
        raise CheckpointError(
            f"the run has no checkpoint {selector}" if names else "the run has no checkpoint yet",
            where=str(self.folder),
            hint=f"{guess}available: best, last, {', '.join(dict.fromkeys(names))}"
            if names
            else f"train it: jtrans train {self.folder}/config.toml --run {self.folder}",
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
        return [self.checkpoint(str(update)) for update in window["updates"]]

    # Log and lock

    def log(self, event: Mapping[str, Any]) -> None:
        """Append one event to log.jsonl."""
        path = self.folder / "log.jsonl"
        line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
        with disk_errors(path), path.open("ab+") as handle:
            if handle.tell():
                handle.seek(-1, os.SEEK_END)
                if handle.read(1) != b"\n":
                    line = b"\n" + line  # a crash truncated the last line: end it
            handle.write(line)

    def events(self) -> list[dict[str, Any]]:
        """Return the logged events, skipping a line truncated by a crash."""
        path = self.folder / "log.jsonl"
        if not path.exists():
            return []
        events = []
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]

    def cut_log(self, count: int) -> int:
        """Keep the first `count` events, and return how many are left.

        What was logged after the newest checkpoint will happen again, but starts and ends did
        happen.
        """
        events = self.events()
        events[count:] = [each for each in events[count:] if each.get("event") in ("start", "end")]
        lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events]
        write_text(self.folder / "log.jsonl", "".join(lines))
        return len(events)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for writing; reading needs no lock.

        Raises:
            JtransError: another live process holds the lock; that of a dead process is taken over.
        """

        def busy(owner: str) -> JtransError:
            return JtransError(
                f"the run is in use by {owner}",
                where=str(self.folder),
                hint="wait for it, stop it, or choose another --run; if it has certainly ended, "
                f"delete {self.folder / 'lock'}",
                kind="run.locked",
            )

        path = self.folder / "lock.json"
        with exclusive(path, busy, watch_seconds=WATCH_SECONDS):
            yield


def step_name(update: int) -> str:
    """Return the name of the checkpoint of an update."""
    return f"step-{update:08d}"


def find_run(name: str) -> Run:
    """Return a run by its folder, its name under runs/, or ``@last``.

    Raises:
        CheckpointError: there is no such run; the hint names the closest.
    """
    if name == "@last":
        runs = list_runs()
        if not runs:
            raise CheckpointError("there are no runs under runs/ yet", kind="run.missing")
        return Run.open(max(runs, key=lambda folder: (folder / "run.json").stat().st_mtime))
    for folder in (Path(name), RUNS / name):
        if Run.exists(folder):
            return Run.open(folder)
    if Path(name).is_dir():
        return Run.open(Path(name))
    names = [folder.relative_to(RUNS).as_posix() for folder in list_runs()]
    names += ["@last"] if names else []
    raise CheckpointError(
        f"no such run: {name}",
        hint=name_hint(name, names, "create one with jtrans train"),
        kind="run.missing",
    )


def list_runs() -> list[Path]:
    """Return the folders of all runs under runs/."""
    return sorted(path.parent for path in RUNS.rglob("run.json")) if RUNS.is_dir() else []
