"""The notes below a table: its text, its limits, and settings that are not the experiment's."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jtrans.scaling.experiment import CONVERGED
from scripts.reproduction.catalogue import Experiment, Row
from scripts.reproduction.configuration import LIMITS, row_config
from scripts.reproduction.results import RowResult
from scripts.reproduction.settings import plain, settings_differ
from scripts.reproduction.summary import RowSummary


def notes(experiment: Experiment, summaries: Sequence[RowSummary]) -> list[str]:
    """Return the notes below the table of an experiment, of which at least one row is finished."""
    results = [result for summary in summaries for result in summary.results]
    first = results[0]
    data, split = first.data, experiment.splits[-1]
    corpus = first.task if data["name"] == first.task else f"{first.task}, corpus {data['name']}"
    lines = [
        f"{corpus}: {data['pairs']:,} training pairs, "
        f"{first.splits[split].sentences:,} sentences of {split}."
    ]
    if data["is_subset"]:
        lines.append(
            f"A subset of the training text, {data['pairs']:,} of {data['complete_pairs']:,} "
            "pairs: these scores are not comparable with the paper's."
        )
    if not summaries[0].is_of_task:
        origin = f"The text was prepared from files, not as {first.task} of the catalogue"
        doubt = ": these scores are comparable with the paper's only if it is the same text"
        has_paper = any(summary.row.published.get(first.task) for summary in summaries)
        lines.append(f"{origin}{doubt if has_paper and not data['is_subset'] else ''}.")
    if first.setting != "paper":
        lines.append(f"Training was limited by {first.setting}, not as in the recipes.")
    elif experiment.setting != "paper":
        lines.append(f"Training was limited as in the recipes, not by {experiment.setting}.")
    if changed := _overrides(experiment, summaries):
        lines.append(f"Changed in every recipe: {'; '.join(changed)}.")
    lines += _changes(experiment, summaries) + _averages(summaries) + _unfinished(summaries)
    lines += _epochs(summaries) + _without_baseline(experiment, summaries)
    if any(len(summary.results) > 1 for summary in summaries):
        lines.append("±: standard deviation between seeds.")
    lines.append(
        "multi-bleu: the papers' tokenised BLEU; vs. the baseline: difference in sacreBLEU's "
        "BLEU, * and ↓ where it is significant (p < 0.05, bootstrap over sentences and seeds)."
    )
    of_splits = [
        dict.fromkeys(result.splits[each].signature for result in results)
        for each in experiment.splits
    ]
    if any(len(signatures) > 1 for signatures in of_splits):
        lines.append("The rows were not all scored in the same way: their BLEU is not comparable.")
    return [*lines, *machines(summaries), *dict.fromkeys(itertools.chain(*of_splits))]


def machines(summaries: Sequence[RowSummary]) -> list[str]:
    """Return the machine of the rows, or, if there are several, which rows each of them made."""
    rows_of: dict[str, dict[str, None]] = {}
    for summary in summaries:
        for result in summary.results:
            versions = f"{result.machine['precision']}, torch {result.versions['torch']}"
            rows_of.setdefault(f"{result.place}, {versions}", {})[summary.row.name] = None
    if len(rows_of) == 1:
        return [f"{machine}." for machine in rows_of]
    return [f"{machine}: {', '.join(names)}." for machine, names in rows_of.items()]


def _overrides(experiment: Experiment, summaries: Sequence[RowSummary]) -> list[str]:
    """Return the experiment's changes of its recipes that every result has."""
    return [
        override
        for override in experiment.overrides
        if all(
            _has(result, experiment, summary.row, override.partition("=")[0].strip())
            for summary in summaries
            for result in summary.results
        )
    ]


def _has(result: RowResult, experiment: Experiment, row: Row, key: str) -> bool:
    """Return whether a result has the experiment's value of a setting."""
    usual = row_config(row, result.task, experiment.setting, experiment.overrides, {})
    return bool(_value(result.config, key) == _value(plain(usual), key))


def _changes(experiment: Experiment, summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on settings that are not the experiment's, as ``--set`` changed them."""
    rows_of: dict[str, list[str]] = {}
    for summary in summaries:
        for setting in _other_settings(experiment, summary.row, summary.results[0]):
            rows_of.setdefault(setting, []).append(summary.row.name)
    settings_of: dict[str, list[str]] = {}
    for setting, rows in rows_of.items():
        where = "every row" if len(rows) == len(summaries) else ", ".join(rows)
        settings_of.setdefault(where, []).append(setting)
    return [
        f"Not as the experiment has it, in {where}: {'; '.join(settings)}."
        for where, settings in settings_of.items()
    ]


def _other_settings(experiment: Experiment, row: Row, result: RowResult) -> list[str]:
    """Return the settings of a result that differ from the experiment's, each ``key=value``."""
    usual = row_config(row, result.task, experiment.setting, experiment.overrides, {})
    is_usual = result.setting == experiment.setting
    noted = () if is_usual else LIMITS  # the limit has a note of its own
    settings = []
    for key in settings_differ(result.config, plain(usual)):
        if key.removeprefix("training.").split(".")[0] in noted:
            continue
        value = _value(result.config, key)
        settings.append(f"{key}={'unset' if value is None else json.dumps(value)}")
    return settings


def _value(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; None without one."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _averages(summaries: Sequence[RowSummary]) -> list[str]:
    """Return notes on rows translated with averages."""
    rows_of: dict[str, list[str]] = {}
    for summary in summaries:
        name, _, count = summary.results[0].checkpoint.partition("-")
        if name == "average" and not summary.row.average:
            rows_of.setdefault(count, []).append(summary.row.name)
    lines = [
        f"Translated with the average of the checkpoints of the last {count} validations: "
        f"{', '.join(rows)}."
        for count, rows in rows_of.items()
    ]
    averaged = [s.row.name for s in summaries if s.results[0].checkpoint.startswith("average-")]
    if averaged:
        lines.append(
            f"The validation loss is that of the best single checkpoint, not of the average that "
            f"is scored: {', '.join(averaged)}."
        )
    return lines


def _unfinished(summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on rows that a limit ended before their early stopping did."""
    rows = [
        summary.row.name
        for summary in summaries
        if any(_is_cut_short(result) for result in summary.results)
    ]
    if not rows:
        return []
    return [
        "A limit of the recipe ended training before early stopping did, so the validation loss "
        f"may still have been falling: {', '.join(rows)}."
    ]


def _epochs(summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on rows with more updates in an epoch than others, where that is known."""
    updates_of = {
        summary.row.name: sorted(
            {
                int(result.curve[0][0])
                for result in summary.results
                if result.config["training"]["validate_every"] == "epoch"
            }
        )
        for summary in summaries
    }
    known = {row: updates for row, updates in updates_of.items() if updates}
    if len({number for updates in known.values() for number in updates}) < 2:
        return []
    rows_of: dict[str, list[str]] = {}
    for row, updates in known.items():
        shown = " to ".join(f"{number:,}" for number in dict.fromkeys((updates[0], updates[-1])))
        rows_of.setdefault(shown, []).append(row)
    listed = "; ".join(f"{shown} of {', '.join(rows)}" for shown, rows in rows_of.items())
    return [
        "Which sentences are in an update depends on system, settings and seed and, for joint "
        f"systems, on the kind of device. Updates of the first epoch: {listed}."
    ]


def _without_baseline(experiment: Experiment, summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on rows whose baseline has no result."""
    done = {summary.row.name for summary in summaries}
    rows_of: dict[str, list[str]] = {}
    for summary in summaries:
        baseline = summary.row.baseline or experiment.rows[0].name
        if baseline not in done:
            rows_of.setdefault(baseline, []).append(summary.row.name)
    return [
        f"{baseline} has no result, so there is no difference to it: {', '.join(rows)}."
        for baseline, rows in rows_of.items()
    ]


def _is_cut_short(result: RowResult) -> bool:
    return "stop" in result.config["training"] and result.training["reason"] not in CONVERGED
