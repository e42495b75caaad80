"""A verdict in words: whether each row is better than its baseline, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.evaluation.significance import PairedResult, p_text
from scripts.reproduction.catalogue import Experiment, find_experiment
from scripts.reproduction.results import RowResult
from scripts.reproduction.summary import (
    FEWEST_SEEDS,
    RowSummary,
    fewest_runs,
)

LENGTHS = {"equal-updates": "{} updates", "equal-time": "{} minutes"}  # of training, by setting


def verdict(experiment: Experiment, summaries: Sequence[RowSummary]) -> str:
    """Return a paragraph for each baseline with its rows, as Markdown.

    Args:
        experiment: the experiment; the verdict names rows without results.
        summaries: the rows that have results.
    """
    first = experiment.rows[0].name
    done = {summary.row.name: summary for summary in summaries}
    paragraphs = []
    for name in dict.fromkeys(row.baseline or first for row in experiment.rows):
        compared = [row for row in experiment.rows if (row.baseline or first) == name != row.name]
        rows = [done[row.name] for row in compared if row.name in done]
        if name not in done or not rows:
            continue
        lines = _facts(done[name], rows, experiment.splits[-1])
        missing = [row.name for row in compared if row.name not in done]
        if missing:
            lines.append(f"Not measured yet: {', '.join(missing)}.")
        paragraphs.append(" ".join(lines))
    if not paragraphs:
        return "Not measured yet: a verdict needs a row and its baseline."
    first_result = summaries[0].results[0]
    return "\n\n".join(
        [*paragraphs, *_limits(first_result.setting), *_paper(experiment, first_result)]
    )


def _facts(base: RowSummary, rows: Sequence[RowSummary], split: str) -> list[str]:
    """Return the sentences about a baseline and its rows: the conclusion, then the differences."""
    pairs = [pair for row in rows if (pair := row.verdicts.get(split)) is not None]
    differences = []
    for pair in pairs:
        sign = "significant" if pair.is_significant else "not significant"
        test = f"{sign}, {p_text(pair.p_value, pair.samples)}"
        if fewest_runs(pair) < FEWEST_SEEDS:
            test = "too few seeds for a test"
        differences.append(f"{pair.difference:+.2f} for `{pair.system}` ({test})")
    beside = f"Differences in BLEU to `{base.row.name}`: {', '.join(differences)}."
    return [f"**{conclusion(pairs)}**", beside]


def conclusion(pairs: Sequence[PairedResult]) -> str:
    """Return one sentence on all comparisons with a baseline."""
    known = [pair for pair in pairs if fewest_runs(pair) >= FEWEST_SEEDS]
    better = [f"`{each.system}`" for each in known if each.is_significant and each.is_better]
    worse = [f"`{each.system}`" for each in known if each.is_significant and not each.is_better]
    open_ = [f"`{each.system}`" for each in known if not each.is_significant]
    parts = []
    if better:
        parts.append(f"a gain over the baseline shows for {_listed(better)}")
    if worse:
        parts.append(f"{_listed(worse)} {'is' if len(worse) == 1 else 'are'} worse")
    if open_:
        parts.append(f"for {_listed(open_)} seeds and sentences vary too much to tell a difference")
    few = [pair for pair in pairs if pair not in known]
    if few:
        rows = f" on {_listed([f'`{pair.system}`' for pair in few])}" if known else ""
        seeds = sorted({fewest_runs(pair) for pair in few})
        counts = " or ".join(map(str, seeds))
        verb = "is" if seeds == [1] else "are"
        parts.append(f"no verdict{rows}: {counts} of at least {FEWEST_SEEDS} seeds {verb} measured")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _limits(setting: str) -> list[str]:
    """Return a caveat about training of a fixed length."""
    name, _, limit = setting.partition(":")
    if name not in LENGTHS:
        return []
    length = LENGTHS[name].format(f"{int(limit):,}")
    return [
        f"Every row has been trained for {length}. This does not tell which one is better after "
        "longer training, or when its loss no longer falls."
    ]


def _paper(experiment: Experiment, result: RowResult) -> list[str]:
    """Return the paper's gains, for an experiment that compares the paper's systems."""
    if experiment.name not in ("equal-parameters", "equal-updates"):
        return []
    place = "iwslt14-de-en"
    published = {
        row.name: row.published[place]["test"] for row in find_experiment("table2", place).rows
    }
    base = published.pop("transformer")
    gains = " and ".join(
        f"{score - base:+.2f} BLEU for `{name}`" for name, score in published.items()
    )
    other = (
        " with larger models" if result.task == place else ", another corpus, with larger models"
    )
    return [f"Table 2 of the paper, on the complete text of {place}{other}: {gains}."]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
