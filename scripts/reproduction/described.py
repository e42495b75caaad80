"""Experiments as a TOML file describes them: read, and refused where they cannot be run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from jtrans.errors import ConfigError, name_hint, usage_error

BUILT_IN = Path(__file__).parent / "experiments.toml"
_SHOWN = "docs/reproduction.md shows an experiment of your own"


class DescribedRow(BaseModel, extra="forbid", strict=True):
    """The table of a row, with the keys of `catalogue.Row`."""

    name: str
    recipe: str
    settings: dict[str, Any] = {}
    published: dict[str, dict[str, float]] = {}
    baseline: str | None = None
    average: Annotated[int, Field(ge=0)] = 0
    run_of: str | None = None


class DescribedExperiment(BaseModel, extra="forbid", strict=True):
    """The table of an experiment, whose rows may be those of another one."""

    title: str
    rows: Annotated[list[DescribedRow], Field(min_length=1)]
    splits: Annotated[list[str], Field(min_length=1)] = ["test"]
    splits_of: dict[str, list[str]] = {}
    analyses: list[Literal["length", "position", "frequency", "attention"]] = []
    tasks: list[str] | None = None
    setting: str = "paper"
    set: list[str] = []


def locate(text: str) -> tuple[Path, str]:
    """Return the file and the name of ``FILE.toml:NAME``, or of the built-in experiment ``NAME``.

    Raises:
        ConfigError: the text names a file alone.
    """
    file, _, name = text.rpartition(":")
    if not text.removesuffix(":").endswith(".toml"):
        return (Path(file), name) if file.endswith(".toml") else (BUILT_IN, text)
    path = Path(text.removesuffix(":"))
    names = [f"{path}:{name}" for name in read_experiments(path)]
    raise usage_error(f"{path} is a file of experiments: name one of them", ", or ".join(names))


def read_experiments(path: Path) -> dict[str, Any]:
    """Return the tables of all experiments of a file by name.

    Raises:
        ConfigError: the file cannot be read, or has no experiments.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _fault(f"cannot read the experiments: {error.strerror}", path) from None
    except (ValueError, RecursionError) as error:
        raise _fault(f"not valid TOML: {error}", path) from None
    experiments = values.get("experiments")
    if not isinstance(experiments, dict) or not experiments:
        raise _fault("no [experiments.NAME]", path)
    return experiments


def read_experiment(path: Path, name: str) -> DescribedExperiment:
    """Return an experiment of a file, with its rows.

    Raises:
        ConfigError: there is none of this name, or its table makes none.
    """
    described = read_experiments(path)
    where = None if path == BUILT_IN else str(path)
    if name not in described:
        raise ConfigError(
            f"no such experiment: {name}",
            where=where,
            hint=name_hint(name, list(described)),
            kind="reproduce.experiment",
        )
    table = described[name]
    if isinstance(table, dict) and "rows_of" in table:
        table = dict(table)
        other = described.get(str(table.pop("rows_of")))
        if not isinstance(other, dict) or "rows" not in other:
            raise _fault(f"rows_of of the experiment {name} names none with rows", path)
        table["rows"] = other["rows"]
    try:
        experiment = DescribedExperiment.model_validate(table)
    except ValidationError as error:
        raise _invalid(error, name, path) from None
    _check_rows(experiment, name, path)
    return experiment


def _invalid(error: ValidationError, name: str, path: Path) -> ConfigError:
    """Return the error for an unknown key of an experiment, else for a missing or wrong entry."""
    faults = error.errors()  # a misspelt key is also missing
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    if first["type"] != "extra_forbidden":
        place = ".".join(str(part) for part in ("experiments", name, *first["loc"]))
        return _fault(f"{place}: {first['msg']}", path)
    *outer, key = first["loc"]
    row = f"row {int(outer[1]) + 1} of " if outer else ""
    keys = DescribedRow.model_fields if outer else (*DescribedExperiment.model_fields, "rows_of")
    return ConfigError(
        f"unknown key {key} in {row}the experiment {name}",
        where=str(path),
        hint=name_hint(str(key), keys),
        kind="reproduce.experiment",
    )


def _check_rows(experiment: DescribedExperiment, name: str, path: Path) -> None:
    """Refuse two rows of one name, references to rows that are not there, and odd recipes."""
    names = [row.name for row in experiment.rows]
    for row in experiment.rows:
        if names.count(row.name) > 1:
            raise _fault(f"the experiment {name} has two rows {row.name}", path)
        for other in (row.baseline, row.run_of):
            if other is not None and other not in names:
                raise _fault(f"{row.name} names {other}, which is no row of {name}", path)
        try:
            row.recipe.format(task="")
        except (LookupError, ValueError):
            braces = "has other braces than those of {task}"
            raise _fault(f"the recipe {row.recipe} of {row.name} {braces}", path) from None


def _fault(message: str, path: Path) -> ConfigError:
    return ConfigError(message, where=str(path), hint=_SHOWN, kind="reproduce.experiment")
