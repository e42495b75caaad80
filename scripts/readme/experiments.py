"""The tables of the reproduced experiments, from their rows' files, and of their statistics."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from scripts.readme.markdown import BENCHMARKS, table

if TYPE_CHECKING:
    from scripts.reproduction.catalogue import Experiment
    from scripts.reproduction.summary import RowSummary


def reproduced_rows(experiment: Experiment, task: str) -> list[RowSummary]:
    """Return the rows of an experiment that have results."""
    from scripts.reproduction.merge import read_results
    from scripts.reproduction.summary import summarise

    folder = BENCHMARKS / "reproduction" / f"{experiment.name}.{task}"
    return summarise(experiment, read_results(folder))


def reproduced(name: str, task: str) -> str:
    """Return the table of an experiment of `scripts.reproduce`, from its rows' files."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.notes import notes
    from scripts.reproduction.table import table as reproduced_table

    experiment = find_experiment(name, task)
    summaries = reproduced_rows(experiment, task)
    if not summaries:
        return "Not measured yet."
    lines = "\n".join(f"- {note}" for note in notes(experiment, summaries))
    return f"{table(*reproduced_table(experiment, summaries))}\n\n{lines}"


def quality(name: str, task: str) -> str:
    """Return the short table of an experiment: systems, their cost and their scores on test."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.notes import machines
    from scripts.reproduction.summary import BLEU, processor_minutes
    from scripts.reproduction.table import mean_of, significance_of, spread_of

    summaries = reproduced_rows(find_experiment(name, task), task)
    if not summaries:
        return "Not measured yet."
    rows = [
        [
            summary.row.recipe_for(task),
            f"{summary.results[0].parameters / 1e6:.2f} M",
            mean_of(processor_minutes(summary.results) or [], 0),
            spread_of(summary.values("test", BLEU), 1),
            significance_of(summary.verdicts.get("test")),
            mean_of(summary.values("test", "chrf"), 1),
        ]
        for summary in summaries
    ]
    head = ["recipe", "parameters", "processor minutes", "BLEU", "vs. the first", "chrF2"]
    first = summaries[0].results[0]
    updates = {each.training["updates"] for summary in summaries for each in summary.results}
    seeds = ", ".join(f"{summary.row.name} {len(summary.results)}" for summary in summaries)
    notes = [
        f"{updates_of(updates)}, seeds: {seeds}.",
        *machines(summaries),
        f"`{first.splits['test'].signature}`",
    ]
    return f"{table(head, rows)}\n\n{' '.join(notes)}"


def updates_of(numbers: Collection[int]) -> str:
    """Return the updates of some trainings in words."""
    low, high = min(numbers), max(numbers)
    return f"{low:,} updates each" if low == high else f"{low:,} to {high:,} updates"


def judged(name: str, task: str) -> str:
    """Return the verdict on an experiment, from its rows' files."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.verdict import verdict

    experiment = find_experiment(name, task)
    return verdict(experiment, reproduced_rows(experiment, task))


def significance(results: dict[str, Any]) -> str:
    """Return the table of how often equal systems differ significantly, from a simulation."""
    rows = [
        [" + ".join(map(str, row["runs"])), *(f"{share:.1%}" for share in row["shares"])]
        for row in results["rows"]
    ]
    spreads = [f"{spread:g}" for spread in results["spreads"]]
    note = f"`{results['command']}`; {results['pairs']:,} pairs for each share, "
    note += f"{results['sentences']} sentences."
    return f"{table(['runs', *spreads], rows)}\n\n{note}"
