"""The scores at the head of a report: every metric of every system, with significance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Any

import numpy as np

from jtrans import __version__
from jtrans.analysis.study.scores import score_subjects
from jtrans.analysis.study.study import Study
from jtrans.errors import how_many
from jtrans.evaluation.scores import tokenizer_name
from jtrans.evaluation.significance import PairedResult
from jtrans.evaluation.systems import ALL_METRICS, MULTI_BLEU, TITLES, Evaluation, SeedGroup
from jtrans.progress import Progress


@dataclass(frozen=True)
class MetricValue:
    """One score: the mean over seeds where there are several."""

    value: float
    interval: float | None  # half the width of the 95 % interval, over sentences and seeds
    low: float | None  # lower end of that interval
    high: float | None  # upper end
    spread: float | None  # sample standard deviation between seeds, None without several seeds
    mark: str = ""  # for a significant difference from the first system (see `significance`)

    @classmethod
    def of(cls, group: SeedGroup, metric: str, mark: str) -> MetricValue:
        """Return the score of a system in a metric."""
        low, high = group.ends(metric) or (None, None)
        interval, spread = group.interval(metric), group.deviation(metric)
        return cls(group.mean(metric), interval, low, high, spread, mark)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval, if it has one."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class ReportScores:
    """All scores of a study."""

    # by metric, in the order of the study's systems; multi-bleu only of runs
    systems: list[dict[str, MetricValue]]
    comparisons: list[PairedResult]  # each system with the first one
    signatures: list[str]  # of sacreBLEU

    @classmethod
    def of(cls, evaluation: Evaluation) -> ReportScores:
        """Return the scores that a report shows of an evaluation."""
        marks = {(pair.index, pair.metric): pair.mark for pair in evaluation.paired}
        systems = [
            {
                name: MetricValue.of(group, name, marks.get((index, TITLES[name]), ""))
                for name in evaluation.metrics
                if name != MULTI_BLEU or group.members[0].multi_bleu is not None
            }
            for index, group in enumerate(evaluation.groups)
        ]
        return cls(systems, evaluation.paired, evaluation.signatures)

    @property
    def metrics(self) -> list[str]:
        """The metrics that any system has."""
        return [name for name in ALL_METRICS if any(name in values for values in self.systems)]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "comparisons": [item.to_json() for item in self.comparisons]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ReportScores:
        """Parse the output of `to_json`."""
        systems = [
            {metric: MetricValue(**value) for metric, value in values.items()}
            for values in content["systems"]
        ]
        comparisons = [PairedResult.from_json(item) for item in content["comparisons"]]
        return cls(systems, comparisons, list(content["signatures"]))


def report_scores(study: Study, progress: Progress) -> ReportScores:
    """Return every system's scores in every metric, against all references of the split.

    They are read from the result cache of the first run if possible, and computed without runs.
    """
    if not study.with_model:
        progress.say("Scoring", f"{how_many(len(study), 'sentence')} of {study.split}")
        return ReportScores.of(score_subjects(study))
    translations = [
        [subject.name, *(member.hypotheses for member in subject.members)]
        for subject in study.subjects
    ]
    first = study.with_model[0].run_members[0]
    cached = first.cached(
        "scores-of-systems",
        with_all_references=True,
        systems=translations,
        lowercase=study.lowercase,
        versions=[__version__, version("sacrebleu"), tokenizer_name(study.target_language)],
        fields=[field.name for field in fields(MetricValue)],
    )
    content = cached.read()
    if content is not None:
        return ReportScores.from_json(json.loads(str(content["scores"])))
    progress.say("Scoring", f"{how_many(len(study), 'sentence')} of {study.split}")
    scores = ReportScores.of(score_subjects(study))
    cached.write({"scores": np.array(json.dumps(scores.to_json()))}, progress)
    return scores
