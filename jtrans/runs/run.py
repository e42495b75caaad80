"""One training run on disk."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from jtrans.config import Config, SystemConfig, build_config, key_lines
from jtrans.errors import CheckpointError, JtransError, wrong_format
from jtrans.files import disk_errors, read_json, whole_folder, write_bytes, write_json, write_text
from jtrans.locks import exclusive
from jtrans.runs.checkpoint_folder import CheckpointFolder
from jtrans.runs.event_log import EventLog
from jtrans.text.pipeline import TextPipeline
from jtrans.text.word_counts import read_word_counts

RUNS = Path("runs")
FORMAT = 1
SECTIONS = frozenset({"model", "training", "decoding"})  # in the config.toml of all versions
WATCH_SECONDS = 20.0  # how long a lock left by another host is watched for signs of life


class Run(CheckpointFolder, EventLog):
    """One training run on disk: its configuration, its checkpoints and its log."""

    @classmethod
    def create(
        cls,
        folder: Path,
        config: Config,
        pipeline: TextPipeline,
        info: Mapping[str, Any],
        *,
        replaces: bool = False,
    ) -> Run:
        """Write the folder of a new run, whole or not at all.

        Args:
            folder: the folder; if it is a link, the target is written.
            config: the resolved configuration.
            pipeline: the text pipeline of the prepared corpus.
            info: further entries of run.json.
            replaces: whether to replace an existing run, whose lock the caller holds.

        Raises:
            JtransError: another process has just created the run, or its name is not UTF-8.
        """
        _check_name(folder)
        try:
            with whole_folder(folder, replaces=replaces) as temporary:
                write_text(temporary / "config.toml", config.to_toml())
                pipeline.save(temporary / "pipeline.json")
                kept = {"format": FORMAT, "settings": _settings(config), **info}
                write_json(temporary / "run.json", kept)
                (temporary / "checkpoints").mkdir()
        except (JtransError, OSError) as error:
            if replaces or not cls.exists(folder):
                raise
            raise JtransError(
                "another process has just created the run",
                where=str(folder),
                hint="once it has ended, the same command continues the run; or choose another "
                "folder",
                kind="run.locked",
            ) from error
        return cls(folder)

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Return whether `folder` holds a run.

        Raises:
            JtransError: no folder can have this name, for example because it is too long.
        """
        with disk_errors(folder):
            return (folder / "run.json").is_file() and (folder / "config.toml").is_file()

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open an existing run.

        Raises:
            CheckpointError: there is none, or it has another format, or its name is not UTF-8.
        """
        _check_name(folder)
        if not cls.exists(folder):
            is_export = (folder / "export.json").is_file()
            raise CheckpointError(
                f"no run in {folder}" + (", but an export" if is_export else ""),
                hint="name the run it was made of, or score its translations: jtrans score --hyp"
                if is_export
                else "create one with jtrans train RECIPE --data DIR --run DIR",
                kind="run.missing",
            )
        run = cls(folder)
        if run.info.get("format") != FORMAT:
            raise CheckpointError(
                wrong_format("the run", run.info.get("format"), FORMAT),
                where=str(folder),
                hint="use the jtrans version that wrote it, or train again",
                kind="run.format",
            )
        return run

    @property
    def name(self) -> str:
        """The run's name: its path below runs/, or else the name of its folder.

        The folder of a seed is named with its parent: ``NAME/seed-1``.
        """
        folder = self.folder.resolve()
        with contextlib.suppress(ValueError):
            return folder.relative_to(RUNS.resolve()).as_posix()
        if re.fullmatch(r"seed-\d+", self.folder.name):
            return f"{folder.parent.name}/{self.folder.name}"
        return self.folder.name

    @cached_property
    def info(self) -> dict[str, Any]:
        """The contents of run.json."""
        path = self.folder / "run.json"
        info = read_json(path)
        if not isinstance(info, dict):
            raise CheckpointError(
                f"{path} is damaged: not an object",
                hint="restore it from a copy, or train again with --restart",
                kind="file.damaged",
            )
        return info

    @property
    def label_names(self) -> dict[str, list[str]]:
        """The names of the labels of source tokens that the model predicts, by kind ("pos")."""
        return dict(self.info.get("labels") or {})

    @cached_property
    def pipeline(self) -> TextPipeline:
        """The text pipeline this run was trained with."""
        return TextPipeline.load(self.folder / "pipeline.json")

    def config(self, systems: Mapping[str, type[SystemConfig]]) -> Config:
        """Return the resolved configuration.

        Raises:
            JtransError: config.toml is missing, damaged, or has settings that cannot be used.
        """
        path = self.folder / "config.toml"
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            missing = SECTIONS - values.keys()
            if missing:
                raise ValueError(f"it has no section {sorted(missing)[0]}")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"the run's configuration is damaged: {error}",
                where=str(path),
                hint="copy the file again if the run was copied, or train again (--restart)",
            ) from error
        return build_config(values, systems, where=str(path), origins=lambda: [key_lines([path])])

    def trained_config(self, systems: Mapping[str, type[SystemConfig]]) -> Config:
        """Return the configuration of the last training, even if config.toml was edited since.

        Runs of earlier versions have only config.toml.
        """
        values = self.info.get("settings")
        if values is None:
            return self.config(systems)
        return build_config(values, systems, where=str(self.folder / "run.json"))

    @property
    def word_counts_path(self) -> Path:
        """The file with the counts of the target words of the training text."""
        return self.folder / "target.words.gz"

    def keep_word_counts(self, path: Path) -> None:
        """Copy the word counts of the prepared corpus, if it has them and the run does not."""
        if path.is_file() and not self.word_counts_path.is_file():
            write_bytes(self.word_counts_path, path.read_bytes())

    def word_counts(self) -> Counter[str] | None:
        """Return the counts of the target words of the training text; None if not kept."""
        return read_word_counts(self.word_counts_path)

    @property
    def began_with(self) -> str | None:
        """The folder of the run whose weights this run began with (``--from``), None if none."""
        return self.info.get("from")

    @property
    def initial_name(self) -> str | None:
        """What ``--from`` named: that run, followed by the checkpoint if one was named with it."""
        folder, checkpoint = self.began_with, self.info.get("from_checkpoint")
        return f"{folder}@{checkpoint}" if folder and checkpoint else folder

    @property
    def changed_settings(self) -> list[str]:
        """The settings, by dotted key, that were changed in the course of training."""
        return list(self.info.get("changed", ()))

    def update_info(self, **info: Any) -> None:
        """Set entries of run.json."""
        self.info.update(info)
        write_json(self.folder / "run.json", self.info)

    def update_config(self, config: Config) -> None:
        """Replace the resolved configuration: limits and rates may change when a run continues."""
        write_text(self.folder / "config.toml", config.to_toml())
        self.update_info(settings=_settings(config))

    # Results

    def result_path(self, kind: Literal["translations", "analysis"], name: str) -> Path:
        """Return the file of the result cache for a kind and a name."""
        return self.folder / kind / name

    @property
    def tensorboard_folder(self) -> Path:
        """The folder of the curves for TensorBoard."""
        return self.folder / "tensorboard"

    @property
    def reports_folder(self) -> Path:
        """The default folder of figures, tables and pages."""
        return self.folder / "reports"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for writing; reading needs no lock.

        Raises:
            JtransError: another live process holds the lock; a dead process's lock is taken over.
        """

        def busy(owner: str) -> JtransError:
            return JtransError(
                f"the run is in use by {owner}",
                where=str(self.folder),
                hint="wait for it, stop it, or choose another folder; if it has certainly ended, "
                f"delete {self.folder / 'lock'}",
                kind="run.locked",
            )

        path = self.folder / "lock.json"
        with exclusive(path, busy, watch_seconds=WATCH_SECONDS):
            yield


def _check_name(folder: Path) -> None:
    """Refuse a name that is not UTF-8: safetensors could not read the weights."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"the name of the run's folder is not UTF-8: {folder}",
            hint="rename it; if it is UTF-8, and only the locale is not, set PYTHONUTF8=1",
            kind="run.name",
        ) from error


def _settings(config: Config) -> dict[str, Any]:
    """Return a configuration as plain values, without what is not set."""
    return tomllib.loads(config.to_toml())
