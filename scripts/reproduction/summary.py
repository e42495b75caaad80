"""The table of an experiment: means over seeds beside the published numbers, with significance."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtrans.evaluation.scores import Score
from jtrans.evaluation.seeds import t_quantile
from jtrans.evaluation.significance import PairedResult, p_text
from jtrans.evaluation.systems import SeedGroup, SystemScores, compare_groups
from jtrans.scaling.experiment import CONVERGED
from scripts.reproduction.catalogue import Experiment, Row
from scripts.reproduction.results import RowResult, SplitScores
from scripts.reproduction.row import LIMITS, is_of_recipe, row_config
from scripts.reproduction.settings import plain, settings_differ

BLEU, PAPER_BLEU = "bleu", "multi-bleu"
WHOLE_MINUTES = 10  # fewer have a decimal
FEWEST_SEEDS = 3  # of row and baseline: fewer hardly show how much seeds differ


@dataclass(frozen=True)
class RowSummary:
    """One row over its seeds.

    Args:
        row: the row of the experiment.
        results: its results, one per seed.
        verdicts: the comparison with the baseline by split; None for a baseline.
        is_of_task: whether the text of the table is that of the task in the catalogue.
    """

    row: Row
    results: Sequence[RowResult]
    verdicts: dict[str, PairedResult | None]
    is_of_task: bool

    def values(self, split: str, metric: str) -> list[float]:
        """Return the score of every seed."""
        return [result.splits[split].scores[metric] for result in self.results]

    def mean(self, split: str, metric: str) -> float:
        """Return the mean over the seeds."""
        return float(np.mean(self.values(split, metric)))

    def deviation(self, split: str, metric: str) -> float | None:
        """Return the sample standard deviation between seeds, None for a single one."""
        values = self.values(split, metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def band(self, split: str, metric: str) -> tuple[float, float] | None:
        """Return the 95 % prediction interval of one more seed, None without several seeds."""
        spread, count = self.deviation(split, metric), len(self.results)
        if spread is None:
            return None
        half = t_quantile(count - 1) * spread * math.sqrt(1 + 1 / count)
        mean = self.mean(split, metric)
        return math.floor(10 * (mean - half)) / 10, math.ceil(10 * (mean + half)) / 10

    def expected(self, split: str, experiment: str) -> str | None:
        """Return the band as a line of `[expect]` for the row's recipe.

        None for results that are not of the recipe, and for fewer seeds than tell a spread.
        """
        band = self.band(split, PAPER_BLEU)
        is_known = self.is_of_task and all(is_of_recipe(self.row, each) for each in self.results)
        if band is None or len(self.results) < FEWEST_SEEDS or not is_known:
            return None
        values = {
            "metric": PAPER_BLEU,
            "low": band[0],
            "high": band[1],
            "seeds": len(self.results),
            "minutes": max(0.1, round(float(np.mean(quiet_minutes(self.results))), 1)),
            "machine": "; ".join(dict.fromkeys(result.place for result in self.results)),
            "results": f"data/benchmarks/reproduction/{experiment}.{self.results[0].task}",
        }
        return "{ " + ", ".join(f"{key} = {json.dumps(v)}" for key, v in values.items()) + " }"

    def published(self, split: str) -> float | None:
        """Return the paper's BLEU of a split, or its ``perplexity`` on valid."""
        return self.row.published.get(self.results[0].task, {}).get(split)


def summarise(experiment: Experiment, results: Sequence[RowResult]) -> list[RowSummary]:
    """Return the rows that have results, in the order of the experiment.

    Results without the scores of all splits are left out: another experiment made them.
    """
    whole = [r for r in sorted(results, key=lambda r: r.seed) if r.has(experiment.splits)]
    by_row = {row.name: [r for r in whole if r.row == row.name] for row in experiment.rows}
    done = [row for row in experiment.rows if by_row[row.name]]
    verdicts: dict[str, dict[str, PairedResult | None]] = {row.name: {} for row in done}
    first = experiment.rows[0].name
    for name in dict.fromkeys(row.baseline or first for row in experiment.rows):
        rows = [row for row in done if (row.baseline or first) == name and row.name != name]
        base = [row for row in done if row.name == name]
        for split in experiment.splits:
            groups = [_group(row, by_row[row.name], split) for row in [*base, *rows]]
            sentences = by_row[base[0].name][0].splits[split].sentences if base else 0
            paired = compare_groups(groups, [BLEU], sentences) if base else []
            for row, pair in zip(rows, paired, strict=bool(base)):
                verdicts[row.name][split] = pair
    # they have the same digests: the text is the catalogue's if any of them knows that it is
    is_of_task = any(result.is_of_task for row in done for result in by_row[row.name])
    return [RowSummary(row, by_row[row.name], verdicts[row.name], is_of_task) for row in done]


def _group(row: Row, results: Sequence[RowResult], split: str) -> SeedGroup:
    return SeedGroup(
        row.name,
        [
            SystemScores(f"{row.name}-{result.seed}", {BLEU: _score(result.splits[split])}, None)
            for result in results
        ],
    )


def _score(scores: SplitScores) -> Score:
    return Score("BLEU", scores.scores[BLEU], scores.signature, np.array(scores.drawn))


def headings(experiment: Experiment) -> list[str]:
    """Return the headings of the table."""
    head = ["row", "parameters", "seeds", "updates", "minutes", "processor minutes", "valid loss"]
    head += ["perplexity valid", "paper"]
    for split in experiment.splits:
        head += [f"multi-bleu {split}", "paper", f"BLEU {split}", "beside the baseline"]
    return head


def cells(experiment: Experiment, summary: RowSummary) -> list[str]:
    """Return the cells of a row."""
    results = summary.results
    line = [
        summary.row.name,
        f"{results[0].parameters / 1e6:.2f} M",
        ",".join(str(result.seed) for result in results),
        mean_of([result.training["updates"] for result in results], 0),
        minutes_of([result.training["minutes"] for result in results]),
        mean_of(processor_minutes(results) or [], 1),
        spread_of([result.training["valid_loss"] for result in results], 3),
        *_perplexity(summary),
    ]
    for split in experiment.splits:
        published = summary.published(split)
        ours = summary.mean(split, PAPER_BLEU)
        line.append(spread_of(summary.values(split, PAPER_BLEU), 2))
        line.append(_beside(ours, published, is_subset=results[0].data["is_subset"]))
        line.append(spread_of(summary.values(split, BLEU), 2))
        line.append(significance_of(summary.verdicts.get(split)))
    return line


def _perplexity(summary: RowSummary) -> list[str]:
    """Return the perplexity of the lowest validation loss beside the published one, if any."""
    published = summary.published("perplexity")
    if published is None:
        return ["", ""]
    values = [math.exp(result.training["valid_loss"]) for result in summary.results]
    is_subset = summary.results[0].data["is_subset"]
    return [
        spread_of(values, 2),
        _beside(float(np.mean(values)), published, is_subset=is_subset),
    ]


def _beside(ours: float, published: float | None, *, is_subset: bool) -> str:
    """Return the published score, with the difference if both systems had the same data."""
    if published is None:
        return ""
    shown = f"{published:.2f}"
    return f"{shown} (all data)" if is_subset else f"{shown} ({ours - published:+.2f})"


def processor_minutes(results: Sequence[RowResult]) -> list[float] | None:
    """Return the processor minutes of each seed, None on a GPU or if a result does not say."""
    known = [result.training.get("processor_minutes") for result in results]
    if None in known or not all(result.is_of_cpu for result in results):
        return None
    return [float(minutes) for minutes in known if minutes is not None]


def quiet_minutes(results: Sequence[RowResult]) -> list[float]:
    """Return the minutes that each seed takes on a quiet machine.

    With one thread these are its processor minutes, as a thread with a core to itself never waits
    for it. For several threads and GPUs only the minutes by the clock are known.
    """
    minutes = [float(result.training["minutes"]) for result in results]
    alone = all(result.machine["device"] == "cpu, 1 threads" for result in results)
    known = processor_minutes(results) if alone else None
    return minutes if known is None else [min(pair) for pair in zip(known, minutes, strict=True)]


def mean_of(values: Sequence[float], digits: int) -> str:
    """Return the mean as text, empty without values."""
    return f"{np.mean(values):,.{digits}f}" if values else ""


def minutes_of(values: Sequence[float]) -> str:
    """Return the mean of minutes as text, whole minutes from ten on."""
    return mean_of(values, 0 if np.round(np.mean(values), 1) >= WHOLE_MINUTES else 1)


def spread_of(values: Sequence[float], digits: int) -> str:
    """Return the mean as text, with the standard deviation of several values."""
    text = f"{np.mean(values):.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {np.std(values, ddof=1):.{digits}f}"


def fewest_runs(pair: PairedResult) -> int:
    """Return the seeds of the row or of its baseline, whichever has fewer."""
    return min(pair.baseline_runs, pair.system_runs)


def significance_of(pair: PairedResult | None) -> str:
    """Return the difference to the baseline as text, marked where it is significant."""
    if pair is None:
        return ""
    if fewest_runs(pair) < FEWEST_SEEDS:
        return f"{pair.difference:+.2f} (too few seeds)"
    return f"{pair.difference:+.2f}{pair.mark} ({p_text(pair.p_value, pair.samples)})"


def table(
    experiment: Experiment, summaries: Sequence[RowSummary]
) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows, without columns that are empty in every row."""
    head = headings(experiment)
    rows = [cells(experiment, summary) for summary in summaries]
    kept = [place for place in range(len(head)) if not rows or any(row[place] for row in rows)]
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows]


def notes(experiment: Experiment, summaries: Sequence[RowSummary]) -> list[str]:
    """Return what a reader of the table must know; at least one row is finished."""
    results = [result for summary in summaries for result in summary.results]
    first = results[0]
    data, split = first.data, experiment.splits[-1]
    lines = [
        f"{first.task}: {data['name']}, {data['pairs']:,} training pairs; "
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
        lines.append(f"{origin}{'' if data['is_subset'] else doubt}.")
    if first.setting != "paper":
        lines.append(f"Training was limited by {first.setting}, not as in the recipes.")
    if experiment.overrides:
        lines.append(f"Changed in every recipe: {'; '.join(experiment.overrides)}.")
    lines += _changes(experiment, summaries) + _averages(summaries) + _unfinished(summaries)
    lines += _without_baseline(experiment, summaries)
    if any(len(summary.results) > 1 for summary in summaries):
        lines.append("±: standard deviation between seeds.")
    lines.append(
        "multi-bleu: the papers' tokenised BLEU; beside the baseline: difference in sacreBLEU's "
        "BLEU, * and ↓ where it is significant (p < 0.05, bootstrap over sentences and seeds)."
    )
    signatures = dict.fromkeys(result.splits[split].signature for result in results)
    if len(signatures) > 1:
        lines.append("The rows were not all scored in the same way: their BLEU is not comparable.")
    return [*lines, *machines(summaries), *signatures]


def machines(summaries: Sequence[RowSummary]) -> list[str]:
    """Return what the rows were made with: of several machines, which rows with each."""
    rows_of: dict[str, dict[str, None]] = {}
    for summary in summaries:
        for result in summary.results:
            versions = f"{result.machine['precision']}, torch {result.versions['torch']}"
            rows_of.setdefault(f"{result.place}, {versions}", {})[summary.row.name] = None
    if len(rows_of) == 1:
        return [f"{machine}." for machine in rows_of]
    return [f"{machine}: {', '.join(names)}." for machine, names in rows_of.items()]


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
    told = () if result.setting == experiment.setting else LIMITS  # another note names the setting
    settings = []
    for key in settings_differ(result, plain(usual)):
        if key.removeprefix("training.").split(".")[0] in told:
            continue
        value: Any = result.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        settings.append(f"{key}={'unset' if value is None else json.dumps(value)}")
    return settings


def _averages(summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on rows translated with averages that the experiment does not call for."""
    rows_of: dict[str, list[str]] = {}
    for summary in summaries:
        name, _, count = summary.results[0].checkpoint.partition("-")
        if name == "average" and not summary.row.average:
            rows_of.setdefault(count, []).append(summary.row.name)
    return [
        f"Translated with the average of the checkpoints of the last {count} validations: "
        f"{', '.join(rows)}."
        for count, rows in rows_of.items()
    ]


def _unfinished(summaries: Sequence[RowSummary]) -> list[str]:
    """Return a note on rows that a limit ended, and not the early stopping of their recipe."""
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


def missing(
    experiment: Experiment,
    rows: Sequence[Row],
    seeds: Sequence[int],
    results: Sequence[RowResult],
) -> list[str]:
    """Return the rows and seeds that have no result yet, or not for all splits."""
    done = {(result.row, result.seed) for result in results if result.has(experiment.splits)}
    return [f"{row.name}-{seed}" for seed in seeds for row in rows if (row.name, seed) not in done]


def as_json(experiment: Experiment, summaries: Sequence[RowSummary]) -> dict[str, Any]:
    """Return the table as plain values."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "notes": notes(experiment, summaries),
        "rows": [
            {
                "row": summary.row.name,
                "seeds": [result.seed for result in summary.results],
                "parameters": summary.results[0].parameters,
                "valid_loss": [result.training["valid_loss"] for result in summary.results],
                "minutes": [result.training["minutes"] for result in summary.results],
                "splits": {
                    split: {
                        metric: {
                            "mean": summary.mean(split, metric),
                            "sd": summary.deviation(split, metric),
                            "band": summary.band(split, metric),
                        }
                        for metric in (PAPER_BLEU, BLEU, "chrf")
                    }
                    for split in experiment.splits
                },
                "published": {split: summary.published(split) for split in experiment.splits},
                "paired": {
                    split: pair.to_json()
                    for split, pair in summary.verdicts.items()
                    if pair is not None
                },
            }
            for summary in summaries
        ],
    }
