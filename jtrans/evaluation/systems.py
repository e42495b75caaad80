"""Several systems on one test set: all scores, means over seeds, and significance.

All numbers come from `evaluate`: ``jtrans score`` and the report show its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jtrans.errors import ConfigError, name_hint, usage_error
from jtrans.evaluation.bleu import multi_bleu
from jtrans.evaluation.bootstrap import Bootstrap
from jtrans.evaluation.leftovers import escaped_warning, normal_form_warning, tokenised_warning
from jtrans.evaluation.scores import CHRF_WITH_WORDS, METRICS, Score, limits, sacrebleu_scores
from jtrans.evaluation.seeds import SeedSample, compare_means, deviation_of
from jtrans.evaluation.sentence_scores import SentenceScores
from jtrans.evaluation.significance import PairedResult

MULTI_BLEU = "multi-bleu"
ALL_METRICS = (*METRICS, MULTI_BLEU)  # shown unless others are chosen
TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    CHRF_WITH_WORDS: "chrF2++",
    "ter": "TER",
    MULTI_BLEU: "multi-bleu",
}


@dataclass(frozen=True)
class SystemOutput:
    """The translations of a test set by one system."""

    name: str  # of the system
    lines: Sequence[str]  # its translations as raw text
    # its translations as words, before detokenisation; None if unknown: no multi-bleu
    words: Sequence[Sequence[str]] | None
    # reference sets as words, segmented like `words`
    reference_words: Sequence[Sequence[Sequence[str]]]
    # name of the group of systems that differ only by seed, or are checkpoints of such runs; None
    # for a system on its own
    group: str | None = None
    run: str | None = None  # name of the run, for checkpoints of one; None for other systems
    trained: str | None = None  # key of the run, the same for a run that is used in two ways


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The scores of one system: by metric name, and multi-bleu if computed."""

    name: str
    scores: Mapping[str, Score]
    multi_bleu: float | None
    run: str | None = None  # as in `SystemOutput`
    trained: str | None = None  # as in `SystemOutput`

    def value(self, metric: str) -> float:
        """Return the score in a metric of `TITLES`, or of given sentence scores.

        Raises:
            ConfigError: the metric is unknown, or was not computed.
        """
        if metric == MULTI_BLEU and self.multi_bleu is not None:
            return self.multi_bleu
        if metric in self.scores:
            return self.scores[metric].value
        check_metrics([metric])
        computed = [*self.scores, *([] if self.multi_bleu is None else [MULTI_BLEU])]
        raise usage_error(
            f"no score in {metric!r} was computed", f"metrics={[*computed, metric]!r}"
        )

    def interval(self, metric: str) -> float | None:
        """Return half the width of the 95 % interval, None if the metric has none."""
        return self.scores[metric].interval if metric in self.scores else None

    def ends(self, metric: str) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval, None if the metric has none."""
        return SeedGroup(self.name, [self]).ends(metric)


@dataclass(frozen=True)
class SeedGroup:
    """Systems that differ only by their random seed, or a single system.

    Checkpoints of the same run say nothing about seeds: their mean counts as the run's score.
    """

    name: str
    members: list[SystemScores]

    @property
    def names(self) -> list[str]:
        """The names of the systems."""
        return [system.name for system in self.members]

    @cached_property
    def runs(self) -> list[SeedGroup]:
        """The systems by run: each alone, the checkpoints of a run together."""
        return _grouped(self.members, [system.run for system in self.members])

    def has_same_runs(self, other: SeedGroup) -> bool:
        """Return whether another group consists of the same runs, in the same order."""
        ours, theirs = ([each.trained for each in group.members] for group in (self, other))
        return ours == theirs and None not in ours

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the runs."""
        return float(np.mean(self._of_each_run(metric)))

    def deviation(self, metric: str) -> float | None:
        """Return the sample standard deviation over the runs, or over the checkpoints of one run.

        None for a single system.
        """
        values = self._of_each_run(metric)
        if len(values) == 1:
            values = [system.value(metric) for system in self.members]
        return deviation_of(values)

    def _of_each_run(self, metric: str) -> list[float]:
        return [float(np.mean([each.value(metric) for each in run.members])) for run in self.runs]

    def decimals(self, metric: str) -> int:
        """Return how many decimals of the metric to show."""
        scores = self.members[0].scores
        return scores[metric].decimals if metric in scores else 1

    def interval(self, metric: str) -> float | None:
        """Return half the width of the 95 % interval of the mean, None if the metric has none.

        It covers the choice of sentences and, with several seeds, of seeds, but not of checkpoints
        of a run.
        """
        return self.sample(metric).interval() if metric in self.members[0].scores else None

    def ends(self, metric: str) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the mean, within the limits of the metric.

        They are percentiles: the score need not be halfway between them.
        """
        if self.interval(metric) is None:
            return None
        return self.sample(metric).ends(*limits(metric))

    def sample(self, metric: str) -> SeedSample:
        """Return every run's scores on the test set and the drawn ones; not for multi-bleu."""
        drawn = [
            np.mean([system.scores[metric].drawn for system in run.members], axis=0)
            for run in self.runs
        ]
        return SeedSample(np.array(self._of_each_run(metric)), np.stack(drawn))


@dataclass(frozen=True)
class Evaluation:
    """All scores of some systems on one test set."""

    metrics: list[str]  # names in `TITLES`, in the order given; then those of sentence scores
    systems: list[SystemScores]  # in the order given, the baseline first
    groups: list[SeedGroup]  # the systems by group, in the order of their first members
    paired: list[PairedResult]  # comparisons of every group with the first one, metric by metric
    references: int  # number of reference sets
    warnings: Sequence[str]  # about the texts

    @property
    def signatures(self) -> list[str]:
        """The signatures of the scores, without repetitions."""
        scores = [score for system in self.systems for score in system.scores.values()]
        return list(dict.fromkeys(score.signature for score in scores))


def check_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics without repetitions.

    Raises:
        ConfigError: a metric is unknown, or there are none.
    """
    if not names:
        raise ConfigError(
            "no metric to score with",
            where="--metric",
            hint=f"metrics: {', '.join(TITLES)}",
            kind="config.unknown-metric",
        )
    for name in names:
        if name not in TITLES:
            raise ConfigError(
                f"unknown metric {name!r}",
                where="--metric",
                hint=name_hint(name, TITLES, f"metrics: {', '.join(TITLES)}"),
                kind="config.unknown-metric",
            )
    return list(dict.fromkeys(names))


def evaluate(
    outputs: Sequence[SystemOutput],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str],
    target_language: str,
    lowercase: bool,
    tokenizer: str | None = None,
    sentence_scores: Sequence[SentenceScores] = (),
) -> Evaluation:
    """Score systems in every metric, group them by seed, and compare groups with the first.

    sacreBLEU's metrics read raw text; multi-bleu reads each system's own words.

    Args:
        outputs: the systems' outputs, the baseline first, each as long as every reference set.
        references: reference sets as raw text.
        metrics: names in `TITLES`.
        target_language: decides sacreBLEU's tokenizer.
        lowercase: compare without case.
        tokenizer: sacreBLEU's tokenizer for BLEU; None: that of the target language.
        sentence_scores: given scores in other metrics.

    Raises:
        CorpusError: an empty test set, numbers of lines that differ, or given scores of other
            translations.
    """
    plain = [name for name in metrics if name != MULTI_BLEU]
    bootstrap = Bootstrap(len(references[0]) if references else 0)
    systems = []
    all_scores = sacrebleu_scores(
        [output.lines for output in outputs],
        references,
        metrics=plain,
        target_language=target_language,
        lowercase=lowercase,
        tokenizer=tokenizer,
        bootstrap=bootstrap,
    )
    by_name = {output.name: output.lines for output in outputs}
    for given in sentence_scores:
        for scores, score in zip(all_scores, given.score(by_name, bootstrap), strict=True):
            scores.append(score)
    plain += [given.metric for given in sentence_scores]
    for output, scores in zip(outputs, all_scores, strict=True):
        tokenised = None
        if MULTI_BLEU in metrics and output.words is not None:
            words = output.words, output.reference_words
            tokenised = multi_bleu(*words, lowercase=lowercase).score
        by_metric = dict(zip(plain, scores, strict=True))
        system = SystemScores(output.name, by_metric, tokenised, output.run, output.trained)
        systems.append(system)
    groups = _grouped(systems, [output.group for output in outputs])
    compared = compare_groups(groups, plain, bootstrap.sentences)
    warnings = [normal_form_warning(by_name, references) if plain else None]
    if "bleu" in plain and tokenizer != "none":
        warnings += [tokenised_warning(each.name, each.lines) for each in outputs]
        warnings.append(escaped_warning(references))
    return Evaluation(
        [*metrics, *(given.metric for given in sentence_scores)],
        systems,
        groups,
        compared,
        len(references),
        [warning for warning in warnings if warning],
    )


def _grouped(systems: Sequence[SystemScores], names: Sequence[str | None]) -> list[SeedGroup]:
    """Return the systems grouped by name; a system without a name is a group of its own."""
    groups: dict[str | int, SeedGroup] = {}
    for number, (system, name) in enumerate(zip(systems, names, strict=True)):
        key, title = (number, system.name) if name is None else (name, name)
        groups.setdefault(key, SeedGroup(title, [])).members.append(system)
    return list(groups.values())


def compare_groups(
    groups: Sequence[SeedGroup], metrics: Sequence[str], sentences: int
) -> list[PairedResult]:
    """Compare every group with the first in each metric, group by group.

    Args:
        groups: the groups, the baseline first, all on the same drawn test sets.
        metrics: names of metrics, given sentence scores included, but not multi-bleu.
        sentences: the size of the test set.
    """
    return [
        _paired_result(groups, index, metric, sentences)
        for index in range(1, len(groups))
        for metric in metrics
    ]


def _paired_result(
    groups: Sequence[SeedGroup], index: int, metric: str, sentences: int
) -> PairedResult:
    pair = groups[0], groups[index]
    others: list[SeedGroup] = []  # without repetitions of runs that are used in several ways
    for group in (*groups[1:index], *groups[index + 1 :]):
        if not any(group.has_same_runs(other) for other in (*pair, *others)):
            others.append(group)
    baseline, system, *lenders = (group.sample(metric) for group in (*pair, *others))
    is_same = groups[index].has_same_runs(groups[0])
    test = compare_means(baseline, system, lenders, sentences=sentences, is_same_runs=is_same)
    return PairedResult(
        **vars(test),
        baseline=groups[0].name,
        system=groups[index].name,
        metric=TITLES.get(metric, metric),
        index=index,
        baseline_runs=baseline.runs,
        system_runs=system.runs,
        decimals=groups[0].decimals(metric),
    )
