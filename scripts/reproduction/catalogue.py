"""Experiments, their rows and the published numbers, as `experiments.toml` describes them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jtrans.errors import ConfigError, name_hint, usage_error
from scripts.reproduction.described import BUILT_IN, DescribedRow, locate, read_experiment
from scripts.reproduction.settings import limit_named


@dataclass(frozen=True)
class Row:
    """One row of a table: a system.

    Args:
        name: the name of the row; with the seed it names the row's files.
        recipe: a recipe with ``{task}`` in place of the task, or a file of `folder`.
        settings: settings to change in the recipe, by dotted key.
        published: the paper's BLEU by task and split; and its ``perplexity`` on valid.
        baseline: the row to compare with; None: the first row.
        average: number of checkpoints to average; 0: as the command says.
        run_of: the row whose runs this row scores in another way; None: it trains its own.
        folder: the folder of the file that describes the row.
    """

    name: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    baseline: str | None = None
    average: int = 0
    run_of: str | None = None
    folder: Path = BUILT_IN.parent

    def recipe_for(self, task: str) -> str:
        """Return the recipe's name or path for a task."""
        recipe = self.recipe.format(task=task)
        return str(self.folder / recipe) if recipe.endswith(".toml") else recipe

    def checkpoint(self, average: int = 0) -> str:
        """Return the name of the checkpoint that translates, given the command's ``--average``."""
        average = self.average or average
        return f"average-{average}" if average else "best"


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Args:
        name: the name of the experiment.
        title: its title, one line.
        rows: its rows, the baseline first.
        splits: the splits to translate and score.
        analyses: the analyses to draw: ``length``, ``position``, ``frequency``, ``attention``.
        tasks: the tasks that it is meant for.
        setting: what limits the training of its rows unless the command says otherwise.
        overrides: settings of all rows, like those of ``--set``, which come after them.
    """

    name: str
    title: str
    rows: Sequence[Row]
    splits: Sequence[str]
    analyses: Sequence[str] = ()
    tasks: Sequence[str] = ()
    setting: str = "paper"
    overrides: Sequence[str] = ()

    def overrides_by(self, setting: str) -> Sequence[str]:
        """Return the settings of all rows when `setting` limits their training.

        A schedule that ends with the experiment's updates keeps that end.
        """
        updates = limit_named(self.setting).get("max_updates")
        if updates is None or "max_updates" in limit_named(setting):
            return self.overrides
        return (*self.overrides, f"training.schedule.updates={updates}")

    def chosen(self, names: Sequence[str] | None) -> list[Row]:
        """Return the rows with these names, in the order of the experiment; all without names.

        Raises:
            ConfigError: there is no such row.
        """
        names_of_rows = [row.name for row in self.rows]
        for name in names or ():
            if name not in names_of_rows:
                raise ConfigError(
                    f"{self.name} has no row {name}",
                    where="--rows",
                    hint=name_hint(name, names_of_rows),
                    kind="reproduce.row",
                )
        return [row for row in self.rows if names is None or row.name in names]


@cache
def _built_in() -> dict[str, Any]:
    return tomllib.loads(BUILT_IN.read_text(encoding="utf-8"))


def experiment_names() -> list[str]:
    """Return the names of all built-in experiments."""
    return list(_built_in()["experiments"])


def find_experiment(text: str, task: str | None) -> Experiment:
    """Return a built-in experiment by its name, or one of a file by ``FILE.toml:NAME``.

    Raises:
        ConfigError: there is no such experiment, it makes no table, or it is not meant for the
            task.
    """
    path, name = locate(text)
    described = read_experiment(path, name)
    tasks = described.tasks
    if tasks is None:
        tasks = [key for key in task_pairs() if _has_recipes(described.rows, key)]
    if task not in tasks:
        raise ConfigError(
            f"{name} has no rows for the task {task}" if task else f"no task for {name}",
            where="--task",
            hint=f"--task {'|'.join(tasks)}" if tasks else f"name its tasks in {path}",
            kind="reproduce.task",
        )
    return Experiment(
        name,
        described.title,
        [Row(**dict(row), folder=path.parent) for row in described.rows],
        described.splits_of.get(task) or described.splits,
        described.analyses,
        tasks,
        described.setting,
        described.set,
    )


def _has_recipes(rows: Sequence[DescribedRow], task: str) -> bool:
    from jtrans.config import recipe_names

    recipes = [row.recipe.format(task=task) for row in rows]
    return all(recipe.endswith(".toml") or recipe in recipe_names() for recipe in recipes)


def task_pairs() -> dict[str, int]:
    """Return the number of pairs in the complete training text of every task."""
    return {name: int(task["pairs"]) for name, task in _built_in()["tasks"].items()}


def lowercase_of(task: str) -> bool | None:
    """Return True if the paper scores the cased text of a task without case, None otherwise.

    It is the argument `lowercase` of scoring: None takes the case of what a run writes.
    """
    return _built_in()["tasks"].get(task, {}).get("lowercase") or None


def parse_rows(text: str) -> list[str]:
    """Return the names of ``base,fast``.

    Raises:
        ConfigError: a name is empty.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise usage_error(
            f"{text!r} is not a list of rows", "--rows transformer,reformer-fast", where="--rows"
        )
    return names
