"""Exported models on disk: a run's weights in the format of another program.

export.json       format version, the other program, the run and checkpoint, facts of the model
config.toml       the run's configuration, with its default search
pipeline.json     the run's text pipeline
README.md         a description of the folder, for people without jtrans
sha256.json       the digests of all other files
...               the files of the other program

A folder appears complete or not at all, and is checked against its digests before use.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jtrans.config import Config, SystemConfig
from jtrans.errors import CheckpointError, ConfigError, DecodingError, JtransError, wrong_format
from jtrans.files import (
    file_digest,
    foreign_file,
    read_json,
    remembered_digest,
    whole_folder,
    write_json,
    write_text,
)
from jtrans.runs import RUNS, Checkpoint, Run, find_run
from jtrans.text.pipeline import TextPipeline

_log = logging.getLogger(__name__)
FORMAT = 1
FACTS, SEAL, CARD = "export.json", "sha256.json", "README.md"
FOLDER = "exports"  # in a run's folder: holds a folder per program


class ExportedCheckpoint(Checkpoint):
    """The checkpoint in an export."""

    @property
    def weights(self) -> Path:
        """The file of digests, which stands for the other program's weight files."""
        return self.folder / SEAL


@dataclass(frozen=True)
class Export:
    """One exported model."""

    folder: Path

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Return whether `folder` holds an export, perhaps a damaged one."""
        return (folder / FACTS).is_file()

    @classmethod
    def open(cls, folder: Path, program: str) -> Export:
        """Open an export for a program, and check all its files.

        Raises:
            CheckpointError: there is no export, it is for another program or has another format,
                or a file is missing or was changed.
        """
        if not cls.exists(folder):
            raise CheckpointError(
                f"no export in {folder}: it has no {FACTS}",
                hint=f"make one: jtrans export RUN --to {program} --out {shlex.quote(str(folder))}",
                kind="export.missing",
            )
        export = cls(folder)
        if export.program != program:
            raise CheckpointError(
                f"the export is for {export.program}, not for {program}",
                where=str(folder),
                hint=f"make another: jtrans export RUN --to {program}",
                kind="export.program",
            )
        export.verify()
        return export

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The contents of export.json."""
        facts = read_json(self.folder / FACTS)
        if not isinstance(facts, dict) or not isinstance(facts.get("program"), str):
            raise self._damaged(f"{FACTS} does not describe an export")
        if facts.get("format") != FORMAT:
            raise CheckpointError(
                wrong_format("the export", facts.get("format"), FORMAT),
                where=str(self.folder),
                hint="make it again: jtrans export",
                kind="export.format",
            )
        return facts

    @property
    def program(self) -> str:
        """The program that the files are for: ``ctranslate2`` or ``onnx``."""
        return str(self.facts["program"])

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @cached_property
    def pipeline(self) -> TextPipeline:
        """The text pipeline of the run."""
        return Run(self.folder).pipeline

    def config(self, systems: Mapping[str, type[SystemConfig]]) -> Config:
        """Return the configuration of the run."""
        return Run(self.folder).config(systems)

    def checkpoint(self, selector: str = "best") -> Checkpoint:
        """Return the exported checkpoint, which lies in the folder of the export.

        Raises:
            CheckpointError: `selector` is another checkpoint.
        """
        name = str(self.facts.get("checkpoint"))
        held = ExportedCheckpoint(name, self.folder)
        if selector not in ("best", name, self.facts.get("selector"), str(held.update)):
            raise CheckpointError(
                f"the export has only checkpoint {name}, not {selector}",
                where="--checkpoint",
                hint=f"export that one: jtrans export RUN --checkpoint {selector}",
                kind="checkpoint.missing",
            )
        return held

    def verify(self) -> None:
        """Check every file against its digest.

        Raises:
            CheckpointError: a file is missing, or was changed or truncated.
        """
        try:
            digests = dict(read_json(self.folder / SEAL))
        except (JtransError, TypeError, ValueError) as error:
            raise self._damaged(f"{SEAL} is missing or damaged") from error
        if FACTS not in digests:
            raise self._damaged(f"{SEAL} has no digest of {FACTS}")
        for name, digest in sorted(digests.items()):
            path = self.folder / str(name)
            if not path.is_file():
                raise self._damaged(f"{name} is missing")
            if digest != remembered_digest(path):
                raise self._damaged(f"{name} has changed since it was written")

    def _damaged(self, fault: str) -> CheckpointError:
        return CheckpointError(
            f"the export is damaged: {fault}",
            where=str(self.folder),
            hint="copy the whole folder again, or make it again: jtrans export",
            kind="export.damaged",
        )


Translatable = Run | Export


@contextlib.contextmanager
def new_export(
    folder: Path, program: str, run: Run, selector: str, systems: Mapping[str, type[SystemConfig]]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a temporary folder and the contents of export.json, for the block to fill.

    When the block succeeds, the folder becomes `folder`, in place of an earlier export of the same
    run for the same program. `selector` names a checkpoint of the run, such as ``best``.

    Raises:
        CheckpointError: there is no such checkpoint, or `folder` holds something else.
    """
    checkpoint = run.checkpoint(selector)
    is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free:
        _check_replaceable(Export(folder), program, run, systems)
    with whole_folder(folder) as temporary:
        facts: dict[str, Any] = {
            "format": FORMAT,
            "program": program,
            "run": run.name,
            "checkpoint": checkpoint.name,
            "selector": selector,
        }
        yield temporary, facts
        run.pipeline.save(temporary / "pipeline.json")
        write_text(temporary / "config.toml", run.config(systems).to_toml())
        write_json(temporary / FACTS, facts)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        digests = {path.relative_to(temporary).as_posix(): file_digest(path) for path in files}
        write_json(temporary / SEAL, digests)


def _check_replaceable(
    earlier: Export, program: str, run: Run, systems: Mapping[str, type[SystemConfig]]
) -> None:
    """Refuse to replace anything but an export of the run for the program, damaged or not."""
    try:
        own = {SEAL, *read_json(earlier.folder / SEAL)}
    except (JtransError, OSError, TypeError):
        own = set()
    if FACTS not in own:
        raise _occupied(f"{earlier.folder} holds something other than an export")
    if foreign := foreign_file(earlier.folder, own.__contains__):
        raise _occupied(f"{earlier.folder} holds {foreign}, which is not part of the export")
    try:
        name, is_for_program = earlier.facts.get("run"), earlier.program == program
        has_model = _has_model_of(earlier, run, systems)
    except (JtransError, OSError, ValueError, LookupError, TypeError):
        return
    if name != run.name or not is_for_program:
        raise _occupied(f"{earlier.folder} holds the export of {name} for {earlier.program}")
    if not has_model:
        raise _occupied(f"{earlier.folder} holds the export of another run {name}")


def _occupied(message: str) -> CheckpointError:
    return CheckpointError(
        message, where="--out", hint="choose another --out, or delete it", kind="export.exists"
    )


def _has_model_of(earlier: Export, run: Run, systems: Mapping[str, type[SystemConfig]]) -> bool:
    """Return whether an export has a run's vocabularies, model settings and seed."""
    texts = (
        (earlier.folder / "config.toml").read_text(encoding="utf-8"),
        run.config(systems).to_toml(),
    )
    before, now = map(tomllib.loads, texts)
    # an earlier version may have had fewer settings
    is_same = all(before["model"][key] == now["model"].get(key) for key in before["model"])
    pipeline = TextPipeline.load(earlier.folder / "pipeline.json")
    return (
        is_same
        and before["training"]["seed"] == now["training"]["seed"]
        and pipeline.fingerprint() == run.pipeline.fingerprint()
    )


def default_folder(run: Run, program: str) -> Path:
    """Return the default folder of a run's export: ``RUN/exports/PROGRAM``."""
    return run.folder / FOLDER / program


def find_models(names: Sequence[str], engine: str) -> list[Translatable]:
    """Return runs by their names or, for an engine other than ``torch``, the export of one run.

    Raises:
        CheckpointError: there is no such run or export, or it cannot be used.
        DecodingError: an export for the engine ``torch``, or several models for another engine.
    """
    if engine == "torch":
        for folder in (Path(name) for name in names):
            if Export.exists(folder) and not Run.exists(folder):
                program = Export(folder).program
                raise DecodingError(
                    f"{folder} is not a run but an export for {program}",
                    hint=f"add --engine {program}"
                    if program == "ctranslate2"
                    else f"its README.md says how to use it: {folder / CARD}",
                    kind="run.missing",
                )
        return [find_run(name, with_checkpoint=True) for name in names]
    if len(names) > 1:
        raise DecodingError(
            f"{engine} translates with a single model, not with an ensemble of {len(names)}",
            where="--engine",
            hint="give one run, or use --engine torch",
            kind="decoding.engine",
        )
    return [find_export(names[0], engine)]


def find_export(name: str, program: str) -> Export:
    """Return an export by its folder, or by the run that it belongs to.

    Raises:
        CheckpointError: there is no such export or run, or the export cannot be used.
    """
    for folder in (Path(name), RUNS / name):
        if Export.exists(folder):
            return Export.open(folder, program)
    is_run = Run.exists(Path(name)) or Run.exists(RUNS / name)
    holds_runs = any(Path(name).glob("[!.]*/run.json"))  # `find_run` names them
    if Path(name).is_dir() and not is_run and not holds_runs:
        return Export.open(Path(name), program)  # its error says what is missing
    run = find_run(name)
    folder = default_folder(run, program)
    if not Export.exists(folder):
        raise CheckpointError(
            f"the run has no export to {program}",
            where=str(run.folder),
            hint=f"make it: jtrans export {shlex.quote(name)} --to {program}",
            kind="export.missing",
        )
    export = Export.open(folder, program)
    selector = export.facts.get("selector")
    if selector in ("best", "last"):
        now, held = run.checkpoint(selector).name, export.facts["checkpoint"]
        if now != held:
            _log.warning(
                "the export has %s, but the %s checkpoint of the run is now %s; "
                "to renew it: jtrans export %s --to %s",
                *(held, selector, now, shlex.quote(name), program),
            )
    return export


def import_extra(module: str, extra: str) -> Any:
    """Import a module that belongs to an optional extra of the package.

    Raises:
        ConfigError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{module.partition('.')[0]} is not installed",
            where=f"extra {extra}",
            hint=f"pip install 'jtrans[{extra}]'",
            kind="config.missing-extra",
        ) from error
