"""The rows of a table over their seeds: means, bands and significance."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jtrans.data.prepared import digest_of
from jtrans.evaluation.scores import Score
from jtrans.evaluation.seeds import deviation_of, t_quantile
from jtrans.evaluation.significance import PairedResult
from jtrans.evaluation.systems import SeedGroup, SystemScores, compare_groups
from scripts.reproduction.catalogue import Experiment, Row, lowercase_of
from scripts.reproduction.configuration import is_of_recipe
from scripts.reproduction.results import RowResult, SplitScores

BLEU, PAPER_BLEU = "bleu", "multi-bleu"
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
        return deviation_of(self.values(split, metric))

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

        None for results that are not of the recipe, for recipes that only experiments use, for
        fewer than `FEWEST_SEEDS` seeds, and for scores without case of cased text: `jtrans score`
        compares its own, with case.
        """
        if lowercase_of(self.results[0].task):
            return None
        band = self.band(split, PAPER_BLEU)
        is_known = self.is_of_task and all(is_of_recipe(self.row, each) for each in self.results)
        is_listed = not self.row.recipe.endswith(".toml")  # by `jtrans recipes`
        if band is None or len(self.results) < FEWEST_SEEDS or not (is_known and is_listed):
            return None
        checkpoint = self.results[0].checkpoint
        values = {
            "metric": PAPER_BLEU,
            "low": band[0],
            "high": band[1],
            **({} if checkpoint == "best" else {"checkpoint": checkpoint}),
            "seeds": len(self.results),
            "minutes": max(0.1, round(float(np.mean(quiet_minutes(self.results))), 1)),
            "machine": "; ".join(dict.fromkeys(result.place for result in self.results)),
            "results": f"data/benchmarks/reproduction/{experiment}.{self.results[0].task}",
            "text": digest_of(self.results[0].data["digests"], split),
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
    is_of_task = _is_of_task([result for row in done for result in by_row[row.name]])
    return [RowSummary(row, by_row[row.name], verdicts[row.name], is_of_task) for row in done]


def _is_of_task(results: Sequence[RowResult]) -> bool:
    """Return whether the text of results with the same digests is that of the catalogue.

    It is if any of them records this, and it is not if some record that a user's files were
    prepared. Results of a version that recorded nothing are judged by the name of the corpus.
    """
    known = {result.data["catalogue"] for result in results if "catalogue" in result.data}
    names = known - {None} or known or {result.data["name"] for result in results}
    return bool(names & {result.task for result in results})


def _group(row: Row, results: Sequence[RowResult], split: str) -> SeedGroup:
    members = []
    for result in results:
        scores = {BLEU: _score(result.splits[split])}
        run = f"{row.run_of or row.name}-{result.seed}"
        members.append(SystemScores(f"{row.name}-{result.seed}", scores, None, trained=run))
    return SeedGroup(row.name, members)


def _score(scores: SplitScores) -> Score:
    return Score("BLEU", scores.scores[BLEU], scores.signature, np.array(scores.drawn))


def processor_minutes(results: Sequence[RowResult]) -> list[float] | None:
    """Return the processor minutes of each seed, None on a GPU or if a result lacks them."""
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


def fewest_runs(pair: PairedResult) -> int:
    """Return the seeds of the row or of its baseline, whichever has fewer."""
    return min(pair.baseline_runs, pair.system_runs)


def missing(
    experiment: Experiment,
    rows: Sequence[Row],
    seeds: Sequence[int],
    results: Sequence[RowResult],
) -> list[str]:
    """Return the rows and seeds that have no result yet, or not for all splits."""
    done = {(result.row, result.seed) for result in results if result.has(experiment.splits)}
    return [f"{row.name}-{seed}" for seed in seeds for row in rows if (row.name, seed) not in done]
