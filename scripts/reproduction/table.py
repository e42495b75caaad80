"""The table of an experiment beside the published numbers, as text and as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtrans.evaluation.seeds import deviation_of
from jtrans.evaluation.significance import PairedResult, p_text
from scripts.reproduction.catalogue import Experiment
from scripts.reproduction.notes import notes
from scripts.reproduction.summary import (
    BLEU,
    FEWEST_SEEDS,
    PAPER_BLEU,
    RowSummary,
    fewest_runs,
    processor_minutes,
)

WHOLE_MINUTES = 10  # fewer have a decimal
UNLIKE = 2  # the largest ratio of the minutes of two seeds on machines that count as alike


def headings(experiment: Experiment) -> list[str]:
    """Return the headings of the table."""
    head = ["row", "parameters", "seeds", "updates", "minutes", "processor minutes", "valid loss"]
    head += ["perplexity valid", "paper"]
    for split in experiment.splits:
        head += [f"multi-bleu {split}", "paper", f"BLEU {split}", "vs. the baseline"]
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


def mean_of(values: Sequence[float], digits: int) -> str:
    """Return the mean as text, empty without values."""
    return f"{np.mean(values):,.{digits}f}" if values else ""


def minutes_of(values: Sequence[float]) -> str:
    """Return the mean of minutes as text, or their range if they differ by more than `UNLIKE`.

    From `WHOLE_MINUTES` on they are whole.
    """
    if max(values) > UNLIKE * min(values):
        return f"{minutes_of([min(values)])} to {minutes_of([max(values)])}"
    return mean_of(values, 0 if np.round(np.mean(values), 1) >= WHOLE_MINUTES else 1)


def spread_of(values: Sequence[float], digits: int) -> str:
    """Return the mean as text, with the standard deviation of several values."""
    text, deviation = f"{np.mean(values):.{digits}f}", deviation_of(values)
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


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
                "updates": [result.training["updates"] for result in summary.results],
                "valid_loss": [result.training["valid_loss"] for result in summary.results],
                "minutes": [result.training["minutes"] for result in summary.results],
                "processor_minutes": processor_minutes(summary.results),
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
                "published": {
                    key: summary.published(key) for key in (*experiment.splits, "perplexity")
                },
                "paired": {
                    split: pair.to_json()
                    for split, pair in summary.verdicts.items()
                    if pair is not None
                },
            }
            for summary in summaries
        ],
    }
