"""The results of one table: read from a folder, checked against each other, merged into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jtrans.config import load_config
from jtrans.errors import ConfigError, JtransError
from jtrans.models.zoo import system_configs
from scripts.reproduction.catalogue import Row
from scripts.reproduction.results import RowResult
from scripts.reproduction.settings import settings_differ

PAIRS = ("pairs", "complete_pairs", "is_subset")  # facts of the data that its digests decide


def read_results(folder: Path, task: str | None = None) -> list[RowResult]:
    """Return all results of a folder, checked against each other.

    Args:
        folder: the folder of the results; need not exist.
        task: the task that all must have, if known.

    Raises:
        ConfigError: a file is not a result, has the name of another, or contradicts the others.
    """
    results = []
    for path in sorted(folder.glob("*.json")):
        try:
            result = RowResult.read(path)
        except JtransError as error:
            error.hint = f"move it elsewhere; a row without its file in {folder} is made again"
            raise
        if path.name != result.file_name:
            raise ConfigError(
                f"{path} is the result of {result.row} with seed {result.seed}",
                hint=f"rename it to {result.file_name}, or move it elsewhere if it is a copy",
                kind="reproduce.file-name",
            )
        results.append(result)
    check_same_data(results, task)
    return results


def check_same_data(results: Iterable[RowResult], task: str | None = None) -> None:
    """Refuse results that must not be in one table.

    Args:
        results: the results for the table.
        task: the task of the table, if known.

    Raises:
        ConfigError: the results differ in task, data or limits of training, or those of one row
            in settings; or two seeds of a row have the same translations.
    """
    first: RowResult | None = None
    by_row: dict[str, RowResult] = {}
    translated: dict[tuple[str, str, str], RowResult] = {}
    scored: dict[str, RowResult] = {}
    for result in results:
        first = first or result
        if result.task != (task or first.task):
            raise _other_task(result.file_name, result, task or first.task)
        if result.data["digests"] != first.data["digests"]:
            raise _other_data(result, first)
        ours, theirs = dict(result.data), dict(first.data)
        if contradictory := [key for key in PAIRS if ours[key] != theirs[key]]:
            raise ConfigError(
                f"{result.file_name} and {first.file_name} were made with the same data, but their "
                f"files differ in data.{contradictory[0]}",
                hint="leave out the one that was edited",
                kind="reproduce.other-data",
            )
        if result.setting != first.setting:
            raise ConfigError(
                f"{result.file_name} was trained by the setting {result.setting}, "
                f"{first.file_name} by {first.setting}",
                hint="rows of one table are trained equally long; use another --out for others",
                kind="reproduce.other-settings",
            )
        same = by_row.setdefault(result.row, result)
        different_keys = settings_differ(same.config, result.config)
        facts = {
            "the checkpoint": same.checkpoint != result.checkpoint,
            "the number of parameters": same.parameters != result.parameters,
        }
        if different_keys or any(facts.values()):
            keys = ", ".join(different_keys or [name for name, differs in facts.items() if differs])
            raise ConfigError(
                f"{result.file_name} and {same.file_name} have other settings: {keys}",
                hint="seeds of one row must have the same settings; use another --out for others",
                kind="reproduce.other-settings",
            )
        for name, split in result.splits.items():
            other = scored.setdefault(name, result)
            if split.sentences != other.splits[name].sentences:
                raise _other_sentences(result, other, name)
            twin = translated.setdefault((result.row, name, split.hypotheses), result)
            # models that are hardly trained may translate alike, but do not have the same losses
            if twin.seed != result.seed and twin.curve == result.curve:
                raise _same_translations(result, twin, name)


def check_new_rows(done: Sequence[RowResult], digests: Mapping[str, str], setting: str) -> None:
    """Refuse to make rows of other data or limits of training than those of the results.

    Args:
        done: the results of the folder, which agree with each other.
        digests: of the corpus for the new rows.
        setting: how long they are to be trained.

    Raises:
        ConfigError: naming a result.
    """
    if not done or (done[0].data["digests"] == digests and done[0].setting == setting):
        return
    by = "with other data" if done[0].setting == setting else f"by the setting {done[0].setting}"
    raise ConfigError(
        f"{done[0].file_name} is in the same folder, and was made {by}",
        where="--out",
        hint="rows of one table have the same data and limits; use another --out for others",
        kind="reproduce.other-settings",
    )


def _other_task(place: Path | str, result: RowResult, task: str) -> ConfigError:
    return ConfigError(
        f"{place} is of the task {result.task}, not of {task}",
        where="--task",
        hint="keep the results of each task in a folder of their own",
        kind="reproduce.other-task",
    )


def _other_data(result: RowResult, first: RowResult) -> ConfigError:
    ours, theirs = result.data["digests"], first.data["digests"]
    different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return ConfigError(
        f"{result.file_name} and {first.file_name} were made with other data: "
        f"{', '.join(different)} of {result.data['name']} and {first.data['name']} differ",
        hint="results of one table need the same prepared corpus; keep those of another in a "
        "folder of their own",
        kind="reproduce.other-data",
    )


def _other_sentences(result: RowResult, other: RowResult, split: str) -> ConfigError:
    ours, theirs = (each.splits[split].sentences for each in (result, other))
    return ConfigError(
        f"{result.file_name} has {ours:,} sentences of {split}, {other.file_name} {theirs:,}",
        hint="results of one table need the same sentences; leave out the one that was edited",
        kind="reproduce.other-data",
    )


def _same_translations(result: RowResult, twin: RowResult, split: str) -> ConfigError:
    return ConfigError(
        f"{result.file_name} and {twin.file_name} have the same translations of {split}: one is "
        "a copy of the other, not a seed of its own",
        hint="leave out the copy; a row without its file is made again",
        kind="reproduce.copy",
    )


def merge(
    paths: Sequence[Path],
    folder: Path,
    *,
    rows: Sequence[Row],
    splits: Sequence[str],
    task: str,
    data: Mapping[str, str] | None,
) -> None:
    """Copy results from other machines into a folder, all or none.

    Args:
        paths: the files of the results.
        folder: the folder to copy them to.
        rows: the rows of the experiment.
        splits: the splits that the experiment scores.
        task: the task of the experiment.
        data: the digests of the corpus that new results must have been made with, if known.

    Raises:
        ConfigError: a result belongs to no row or lacks a split, another result of its row and seed
            is there already, or its data or settings differ from those there.
    """
    merged = {result.file_name: result for result in read_results(folder, task)}
    places = {name: folder / name for name in merged}
    new = []
    for path in paths:
        result = RowResult.read(path)
        name = result.file_name
        if result.task != task:
            raise _other_task(path, result, task)
        _check_row(path, result, rows, splits)
        if data is not None and result.data["digests"] != data:
            raise ConfigError(
                f"{path} was made with other data than that of the prepared corpus",
                where="--data",
                hint=f"prepare {result.data['name']} as it was prepared there, or leave --data out "
                "to print a table of the results alone",
                kind="reproduce.other-data",
            )
        if merged.setdefault(name, result) != result:
            raise ConfigError(
                f"{path} and {places[name]} are two results of {result.row} with seed "
                f"{result.seed}",
                hint="name only one, or delete the one in the folder to replace it",
                kind="reproduce.twice",
            )
        if name not in places:
            places[name] = path
            new.append(result)
    check_same_data(merged.values(), task)
    for result in new:
        result.write(folder)


def _check_row(path: Path, result: RowResult, rows: Sequence[Row], splits: Sequence[str]) -> None:
    """Refuse the result of a row that the experiment does not have, or without all its splits."""
    row = next((row for row in rows if row.name == result.row), None)
    if row is None or row.recipe.format(task=result.task) != result.recipe:
        what = f"{result.row} of the recipe {result.recipe}"
        raise ConfigError(
            f"{path} is the result of {what}, which is not a row of this experiment",
            hint=f"its rows are {', '.join(sorted(row.name for row in rows))}",
            kind="reproduce.other-row",
        )
    system = load_config(row.recipe_for(result.task), system_configs()).model.system
    if result.config["model"]["system"] != system:
        raise ConfigError(
            f"{path} is the result of {result.config['model']['system']}, and {result.recipe} is "
            f"{system}",
            hint="leave it out: its row or its recipe was edited",
            kind="reproduce.other-row",
        )
    if absent := [split for split in splits if split not in result.splits]:
        raise ConfigError(
            f"{path} has no scores of {', '.join(absent)}, which this table needs",
            hint="the command of this experiment completes it, where its run is",
            kind="reproduce.no-split",
        )
