"""The result of one row and one seed: one JSON file that can be made on any machine and merged.

It has everything that the tables need, and nothing of the corpus: the translations appear only as
their digest, and the drawn test sets of the bootstrap as their scores.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from jtrans.errors import ConfigError
from jtrans.files import read_json, write_text

FORMAT = 1
# what may differ between the results of a row, as it changes no score
FREE = ("training.seed", "training.keep.last")


@dataclass(frozen=True)
class SplitScores:
    """The scores of one split.

    Args:
        sentences: of the split.
        scores: by metric: bleu, chrf, multi-bleu.
        signature: of sacreBLEU's BLEU.
        drawn: BLEU on every test set of the bootstrap.
        hypotheses: SHA-256 of the translations.
        tokens_per_second: of the translation.
    """

    sentences: int
    scores: dict[str, float]
    signature: str
    drawn: list[float]
    hypotheses: str
    tokens_per_second: float | None


@dataclass(frozen=True)
class RowResult:
    """What a row gave with one seed.

    Args:
        row: its name.
        task: such as ``multi30k-de-en``.
        seed: of the run.
        recipe: it was made from.
        setting: how training was limited: ``paper`` as in the recipe.
        config: resolved, without the seed.
        data: name, digests of the splits and of the pipeline, pairs, whether it is a subset.
        versions: of jtrans, torch, python and sacreBLEU.
        machine: processor, device and precision.
        parameters: trainable numbers.
        training: updates, epochs, minutes, minutes of processors (None or missing where unknown),
            why it ended, the lowest validation loss.
        checkpoint: that was translated with.
        curve: update, train loss and valid loss of every validation.
        splits: the scores by split.
    """

    row: str
    task: str
    seed: int
    recipe: str
    setting: str
    config: dict[str, Any]
    data: dict[str, Any]
    versions: dict[str, str]
    machine: dict[str, str]
    parameters: int
    training: dict[str, Any]
    checkpoint: str
    curve: list[list[float]]
    splits: dict[str, SplitScores]

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return file_name(self.row, self.seed)

    @property
    def place(self) -> str:
        """Its processor and device, to read."""
        device = self.machine["device"].replace(", 1 threads", ", 1 thread")
        return f"{self.machine['processor']}, {device}"

    def write(self, folder: Path) -> Path:
        """Write the result into a folder; return the file."""
        path = folder / self.file_name
        write_text(path, _compact({"format": FORMAT, **asdict(self)}) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> RowResult:
        """Read a result.

        Raises:
            ConfigError: it is no result of a row.
            JtransError: the file cannot be read.
        """
        value = read_json(path)
        names = {each.name for each in fields(cls)}
        if (
            not isinstance(value, dict)
            or value.pop("format", None) != FORMAT
            or set(value) != names
        ):
            raise ConfigError(
                f"{path} is no result of a row, or of another version",
                where=str(path),
                hint="name files that python -m scripts.reproduce has written into OUT/rows",
                kind="reproduce.result",
            )
        value["splits"] = {name: SplitScores(**own) for name, own in value["splits"].items()}
        return cls(**value)


def file_name(row: str, seed: int) -> str:
    """Return the name of a row's file."""
    return f"{row}-{seed}.json"


def read_results(folder: Path) -> list[RowResult]:
    """Return all results of a folder, checked against each other."""
    results = [RowResult.read(path) for path in sorted(folder.glob("*.json"))]
    check_same_data(results)
    return results


def check_same_data(results: Iterable[RowResult]) -> None:
    """Refuse results that cannot stand in one table.

    Raises:
        ConfigError: of other data, or of one row with other settings.
    """
    first: RowResult | None = None
    by_row: dict[str, RowResult] = {}
    for result in results:
        first = first or result
        if result.data["digests"] != first.data["digests"]:
            different = [
                name
                for name, digest in result.data["digests"].items()
                if digest != first.data["digests"].get(name)
            ]
            raise ConfigError(
                f"{result.file_name} and {first.file_name} were made with other data: "
                f"{', '.join(different)} of {result.data['name']} and {first.data['name']} differ",
                hint="results of one table need the same prepared corpus; keep those of another "
                "in a folder of their own",
                kind="reproduce.other-data",
            )
        same = by_row.setdefault(result.row, result)
        if (different_keys := _different(same.config, result.config)) or (
            same.checkpoint != result.checkpoint
        ):
            keys = ", ".join(different_keys) or "the checkpoint"
            raise ConfigError(
                f"{result.file_name} and {same.file_name} have other settings: {keys}",
                hint="seeds of one row must have the same settings; use another --out for others",
                kind="reproduce.other-settings",
            )


def _different(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key in sorted({*old, *new}):
        ours, theirs = old.get(key), new.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            keys += _different(ours, theirs, f"{prefix}{key}.")
        elif ours != theirs and f"{prefix}{key}" not in FREE:
            keys.append(f"{prefix}{key}")
    return keys


def settings_differ(result: RowResult, config: Mapping[str, Any]) -> list[str]:
    """Return the settings in which a result differs from a configuration."""
    return _different(result.config, config)


def merge(paths: Sequence[Path], folder: Path, *, of: Collection[str]) -> list[RowResult]:
    """Copy results from other machines into a folder, all or none; return those of the folder.

    Args:
        paths: of the results.
        folder: where they are copied to.
        of: the experiment's rows.

    Raises:
        ConfigError: one is of no row, or they are of other data or settings than those there.
    """
    own = read_results(folder) if folder.is_dir() else []
    new = [RowResult.read(path) for path in paths]
    for path, result in zip(paths, new, strict=True):
        if result.row not in of:
            raise ConfigError(
                f"{path} is the result of {result.row}, which is no row of this experiment",
                where=str(path),
                hint=f"its rows are {', '.join(sorted(of))}",
                kind="reproduce.other-row",
            )
    names = {result.file_name for result in new}
    merged = [result for result in own if result.file_name not in names] + new
    check_same_data(merged)
    for result in new:
        result.write(folder)
    return merged


def _compact(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each key, but lists in one line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    space = "  " * (indent + 1)
    lines = [f"{space}{json.dumps(key)}: {_compact(own, indent + 1)}" for key, own in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * indent + "}"
