"""The result of one row and one seed: one JSON file that can be made on any machine and merged.

It has everything that the tables need, and no text of the corpus: of the translations only a
digest, of the drawn test sets of the bootstrap only the scores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from jtrans.errors import ConfigError
from jtrans.evaluation.bootstrap import SAMPLES
from jtrans.files import read_json, write_text
from scripts.reproduction.settings import SETTING, fault_of, limit_named

FORMAT = 1
METRICS = ("bleu", "chrf", "multi-bleu")
THEN = ", then "  # between the devices of a run that continued on another one
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

Percent = Annotated[float, Field(ge=0.0, le=100.0)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
AtLeastOne = Annotated[int, Field(ge=1, lt=2**53)]
Time = Annotated[float, Field(ge=0.0, le=1e9)]
Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
# these become parts of file names, and decide what is made when a row is made again
Name = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
Setting = Annotated[str, Field(pattern=SETTING)]
Checkpoint = Annotated[str, Field(pattern=r"^(best|average-[1-9][0-9]{0,5})$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Point = Annotated[list[float], Field(min_length=3, max_length=3)]
CURVE_ROUNDING = 1e-4  # of losses: those of the curve are stored with four digits
ROUNDING = 0.01  # of scores: those of the drawn test sets are stored with fewer digits


class DataFacts(TypedDict):
    """The data of a result: digests of the splits and of the pipeline, training pairs.

    `catalogue` is the name of its corpus in the catalogue, None for files of a user; older results
    have none.
    """

    name: Printable
    catalogue: NotRequired[Printable | None]
    pairs: Count
    complete_pairs: Count | None
    is_subset: bool
    digests: Annotated[dict[str, str], Field(min_length=1)]


class TrainingFacts(TypedDict):
    """The course of training; `processor_minutes` are None or missing if unknown."""

    updates: Count
    epochs: Time
    minutes: Time
    processor_minutes: NotRequired[Time | None]
    reason: Printable
    valid_loss: Time


@dataclass(frozen=True)
class SplitScores:
    """The scores of one split.

    Args:
        sentences: number of sentences.
        scores: the scores by metric of `METRICS`.
        signature: the signature of sacreBLEU's BLEU.
        drawn: BLEU on every drawn test set of the bootstrap.
        hypotheses: SHA-256 of the translations.
        tokens_per_second: the rate of translating.
        length_ratio: BLEU's tokens of the translations over those of the references; None in
            results of earlier versions.
    """

    __pydantic_config__ = STRICT

    sentences: AtLeastOne
    scores: dict[str, Percent]
    signature: Printable
    drawn: Annotated[list[Percent], Field(min_length=SAMPLES, max_length=SAMPLES)]
    hypotheses: Digest
    tokens_per_second: float | None
    length_ratio: float | None = None


@dataclass(frozen=True)
class RowResult:
    """The result of a row with one seed.

    Args:
        row: the name of the row.
        task: such as ``multi30k-de-en``.
        seed: the seed of the run.
        recipe: the recipe of the row.
        setting: the limit of training, ``paper`` for that of the recipe.
        config: the resolved configuration.
        data: the data it was trained on.
        versions: the versions of jtrans, torch, python and sacreBLEU.
        machine: processor, device and precision; several devices of a run are joined by `THEN`.
        parameters: number of trainable parameters.
        training: the length of training and the reason for its end.
        checkpoint: the name of the checkpoint that translated.
        curve: update, train loss and valid loss of every validation.
        splits: the scores by split.
    """

    __pydantic_config__ = STRICT

    row: Name
    task: Name
    seed: Count
    recipe: Printable
    setting: Setting
    config: dict[str, Any]
    data: DataFacts
    versions: dict[str, Printable]
    machine: dict[str, Printable]
    parameters: AtLeastOne
    training: TrainingFacts
    checkpoint: Checkpoint
    curve: Annotated[list[Point], Field(min_length=1)]
    splits: Annotated[dict[str, SplitScores], Field(min_length=1)]

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return file_name(self.row, self.seed)

    @property
    def place(self) -> str:
        """Its processor and device as readable text."""
        device = self.machine["device"].replace(", 1 threads", ", 1 thread")
        return f"{self.machine['processor']}, {device}"

    @property
    def is_of_cpu(self) -> bool:
        """Whether training never used another device."""
        return all(device.startswith("cpu") for device in self.machine["device"].split(THEN))

    def has(self, splits: Iterable[str]) -> bool:
        """Return whether these splits have been scored."""
        return set(splits) <= set(self.splits)

    def write(self, folder: Path) -> Path:
        """Write the result into a folder; return the file."""
        path = folder / self.file_name
        write_text(path, _compact({"format": FORMAT, **asdict(self)}) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> RowResult:
        """Read a result.

        Raises:
            ConfigError: the file is not the result of a row.
            JtransError: the file cannot be read.
        """
        if not path.exists():
            raise _no_result(f"no such file: {path}")
        if path.is_dir():
            raise _no_result(f"{path} is a folder, not the result of a row")
        value = read_json(path)
        if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
            raise _no_result(f"{path} is not the result of a row, or is of another version")
        try:
            result = TypeAdapter(cls).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            reason = f"{key}: {first['msg'][:1].lower()}{first['msg'][1:]}"
            raise _no_result(f"{path} is damaged: {reason}") from error
        if fault := result._fault():
            raise _no_result(f"{path} is damaged: {fault}")
        try:
            _compact(value).encode("utf-8")
        except ValueError as error:  # half a surrogate pair, which JSON can escape, or infinity
            raise _no_result(f"{path} is damaged: {error}") from error
        return result

    def _fault(self) -> str | None:
        """Return in words what is missing or contradictory in a well-formed file, or None."""
        if fault := fault_of(self.config):
            return f"config: {fault}"
        training = self.config["training"]
        if self.seed != training["seed"]:
            return f"seed {self.seed} is not that of its configuration"
        for key, limit in limit_named(self.setting).items():
            if training.get(key) != limit:
                return f"config: training.{key} is not that of the setting {self.setting}"
        updates, most = self.training["updates"], training.get("max_updates")
        if most is not None and updates > most:
            return f"training.updates is {updates:,}, more than config.training.max_updates"
        validated = [update for update, _, _ in self.curve]
        if validated != sorted(set(validated)):
            return "curve: its updates do not increase"
        if validated[-1] > updates:
            return f"training.updates is {updates:,}, less than the last of its curve"
        if self.data["is_subset"] and self.data["complete_pairs"] is None:
            return "data: of a subset, complete_pairs is missing"
        lowest = min(loss for _, _, loss in self.curve)
        if abs(lowest - self.training["valid_loss"]) > CURVE_ROUNDING:
            return f"training.valid_loss is not {lowest}, the lowest of its curve"
        for name, split in self.splits.items():
            if missing := set(METRICS) - set(split.scores):
                return f"splits.{name}.scores has no {', '.join(sorted(missing))}"
            low, high = min(split.drawn) - ROUNDING, max(split.drawn) + ROUNDING
            if not low <= split.scores["bleu"] <= high:
                return f"splits.{name}: its BLEU is not that of its drawn test sets"
        if missing := {"processor", "device", "precision"} - set(self.machine):
            return f"machine has no {', '.join(sorted(missing))}"
        return None if "torch" in self.versions else "versions has no torch"


def _no_result(message: str) -> ConfigError:
    return ConfigError(
        message,
        hint="name whole files that python -m scripts.reproduce has written into OUT/rows",
        kind="reproduce.result",
    )


def file_name(row: str, seed: int) -> str:
    """Return the name of a row's file."""
    return f"{row}-{seed}.json"


def _compact(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each key, but lists in one line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    space = "  " * (indent + 1)
    lines = [
        f"{space}{json.dumps(key)}: {_compact(entry, indent + 1)}" for key, entry in value.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * indent + "}"
