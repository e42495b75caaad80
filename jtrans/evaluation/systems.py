"""Several systems on one test set: every metric side by side, and who is better."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jtrans.errors import ConfigError, did_you_mean
from jtrans.evaluation.bleu import MultiBleu, multi_bleu
from jtrans.evaluation.scores import METRICS, Score, sacrebleu_scores
from jtrans.evaluation.significance import PairedResult, paired_bootstrap

MULTI_BLEU = "multi-bleu"
ALL_METRICS = (*METRICS, MULTI_BLEU)


@dataclass(frozen=True)
class System:
    """What one system gave for a test set.

    Args:
        name: how to call it.
        lines: its translations as raw text.
        words: the same as words, before detokenisation.
        reference_words: reference sets as words, segmented like `words`.
    """

    name: str
    lines: Sequence[str]
    words: Sequence[Sequence[str]]
    reference_words: Sequence[Sequence[Sequence[str]]]


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system: by metric name, and multi-bleu where it was asked for."""

    name: str
    scores: Mapping[str, Score]
    multi_bleu: MultiBleu | None

    def value(self, metric: str) -> float:
        """Return the plain number of a metric of `ALL_METRICS` that was computed."""
        if metric == MULTI_BLEU and self.multi_bleu is not None:
            return self.multi_bleu.score
        return self.scores[metric].value


def check_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics without repetitions.

    Raises:
        ConfigError: an unknown metric, or none.
    """
    for name in names or [""]:
        if name not in ALL_METRICS:
            near = did_you_mean(name, ALL_METRICS)
            raise ConfigError(
                f"unknown metric {name!r}",
                where="--metric",
                hint=f"did you mean {near}?" if near else f"metrics: {', '.join(ALL_METRICS)}",
                kind="config.unknown-metric",
            )
    return list(dict.fromkeys(names))


def score_systems(
    systems: Sequence[System],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str],
    target_language: str,
    lowercase: bool,
) -> list[SystemScores]:
    """Score systems with sacreBLEU on raw text, and with multi-bleu on their own words.

    Args:
        systems: what they gave, as many lines as every reference set.
        references: reference sets as raw text.
        metrics: out of `ALL_METRICS`.
        target_language: decides sacreBLEU's tokenizer.
        lowercase: compare without case.
    """
    plain = [name for name in metrics if name != MULTI_BLEU]
    result = []
    for system in systems:
        scores = sacrebleu_scores(
            system.lines,
            references,
            metrics=plain,
            target_language=target_language,
            lowercase=lowercase,
        )
        own = None
        if MULTI_BLEU in metrics:
            own = multi_bleu(system.words, system.reference_words, lowercase=lowercase)
        result.append(SystemScores(system.name, dict(zip(plain, scores, strict=True)), own))
    return result


def compare_systems(
    systems: Sequence[System],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str],
    target_language: str,
    lowercase: bool,
) -> list[PairedResult]:
    """Compare the first system with each of the others; nothing for a single system."""
    plain = [name for name in metrics if name != MULTI_BLEU]
    if len(systems) < 2 or not plain:
        return []
    return paired_bootstrap(
        [(system.name, system.lines) for system in systems],
        references,
        metrics=plain,
        target_language=target_language,
        lowercase=lowercase,
    )


@dataclass(frozen=True)
class SeedGroup:
    """Systems that differ only by their random seed.

    Args:
        names: of the systems.
        means: mean of each metric.
        deviations: sample standard deviation of each metric.
    """

    names: list[str]
    means: dict[str, float]
    deviations: dict[str, float]


def group_by_seed(
    scores: Sequence[SystemScores], keys: Sequence[str], metrics: Sequence[str]
) -> list[SeedGroup]:
    """Return mean and deviation of the systems that share a key (all but the seed), if several."""
    members: dict[str, list[SystemScores]] = {}
    for system, key in zip(scores, keys, strict=True):
        members.setdefault(key, []).append(system)
    groups = []
    for group in members.values():
        if len(group) > 1:
            values = {name: [system.value(name) for system in group] for name in metrics}
            groups.append(
                SeedGroup(
                    [system.name for system in group],
                    {name: statistics.mean(found) for name, found in values.items()},
                    {name: statistics.stdev(found) for name, found in values.items()},
                )
            )
    return groups
