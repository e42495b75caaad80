"""The scores at the head of a report: every metric of every system, and who is better."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jtrans.analysis.study.study import Study
    from jtrans.evaluation.systems import SystemScores
    from jtrans.progress import Progress

METRICS = ("bleu", "chrf", "ter", "multi-bleu")
TITLES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER", "multi-bleu": "multi-bleu"}
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class MetricValue:
    """One score: the mean over seeds where there are several.

    Args:
        value: the score.
        interval: half the width of the 95 % bootstrap interval, of the first seed.
        spread: sample standard deviation between seeds, None without several seeds.
    """

    value: float
    interval: float | None
    spread: float | None


@dataclass(frozen=True)
class Comparison:
    """A system against the first one in one metric."""

    system: str
    baseline: str
    metric: str
    difference: float
    p_value: float
    samples: int
    is_better: bool

    @property
    def is_significant(self) -> bool:
        """Whether chance alone rarely makes such a difference."""
        return self.p_value < SIGNIFICANT


@dataclass(frozen=True)
class Scores:
    """All scores of a study.

    Args:
        systems: by name, by metric.
        comparisons: each system with the first one.
        signatures: of sacreBLEU.
    """

    systems: dict[str, dict[str, MetricValue]]
    comparisons: list[Comparison]
    signatures: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Scores:
        """Read what `to_json` returned."""
        systems = {
            name: {metric: MetricValue(**value) for metric, value in values.items()}
            for name, values in content["systems"].items()
        }
        comparisons = [Comparison(**item) for item in content["comparisons"]]
        return cls(systems, comparisons, list(content["signatures"]))


def score_study(study: Study, progress: Progress) -> Scores:
    """Return the scores of all systems, from the first run's folder if they are there.

    With all references of the split, in every metric.

    Args:
        study: the systems.
        progress: told when there is something to compute.
    """
    everything = [
        [subject.name, *(member.hypotheses for member in subject.members)]
        for subject in study.subjects
    ]
    first = study.with_model[0].run_members[0]
    kept = first.kept("scores", all_references=True, systems=everything, lowercase=study.lowercase)
    arrays = kept.read()
    if arrays is not None:
        return Scores.from_json(json.loads(str(arrays["scores"])))
    progress.say("Scoring", f"{len(study):,} sentences of {study.split}")
    scores = _score(study)
    kept.write({"scores": np.array(json.dumps(scores.to_json()))}, progress)
    return scores


def _score(study: Study) -> Scores:
    from jtrans.evaluation.systems import System, compare_systems, score_systems

    choices: dict[str, Any] = {
        "metrics": METRICS,
        "target_language": study.target_language,
        "lowercase": study.lowercase,
    }
    references = study.text.references
    words = [list(column) for column in zip(*study.text.words_of_references, strict=True)]
    values, firsts, signatures = {}, [], {}
    for subject in study.subjects:
        systems = [
            System(subject.name, m.hypotheses, m.hypothesis_words, words) for m in subject.members
        ]
        firsts.append(systems[0])
        found = score_systems(systems, references, **choices)
        values[subject.name] = _values(found)
        signatures.update(dict.fromkeys(s.signature for s in found[0].scores.values()))
    comparisons = [
        Comparison(
            pair.system,
            pair.baseline,
            pair.metric,
            pair.difference,
            pair.p_value,
            pair.samples,
            pair.is_better,
        )
        for pair in compare_systems(firsts, references, **choices)
    ]
    return Scores(values, comparisons, list(signatures))


def _values(found: list[SystemScores]) -> dict[str, MetricValue]:
    result = {}
    for metric in METRICS:
        values = [scores.value(metric) for scores in found]
        interval = found[0].scores[metric].interval if metric in found[0].scores else None
        spread = statistics.stdev(values) if len(values) > 1 else None
        result[metric] = MetricValue(statistics.mean(values), interval, spread)
    return result
