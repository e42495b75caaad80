"""Is one system better than another, or was it luck? Paired bootstrap resampling.

Koehn (2004): draw test sets with replacement from the original one, score both systems on each,
and count how often chance alone yields a difference as large as the observed one. sacreBLEU
computes it; its p-value is the one that papers report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from jtrans.evaluation.bootstrap import SAMPLES, default_seed
from jtrans.evaluation.scores import METRICS, make_metric

SIGNIFICANT = 0.05  # a lower p-value is called significant


@dataclass(frozen=True)
class PairedResult:
    """One system against the baseline in one metric.

    Args:
        baseline: name of the baseline.
        system: name of the system.
        metric: ``BLEU``, ``chrF2`` or ``TER``.
        difference: score of the system minus score of the baseline.
        p_value: probability of a difference of this size by chance alone.
        samples: number of bootstrap samples it rests on.
    """

    baseline: str
    system: str
    metric: str
    difference: float
    p_value: float
    samples: int

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PairedResult:
        """Parse the output of `to_json`."""
        return cls(**{name: value for name, value in content.items() if name != "is_better"})

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "is_better": self.is_better}

    def describe(self) -> str:
        """Describe in words how the system compares with the baseline."""
        test = f"(paired bootstrap, {self.samples:,} samples, p = {self.p_value:.3f})"
        if not self.is_significant:
            return (
                f"{self.system} and {self.baseline} do not differ significantly in {self.metric}: "
                f"{self.difference:+.1f} {test}"
            )
        word = "better" if self.is_better else "worse"
        difference = f"{abs(self.difference):.1f} {self.metric}"
        return f"{self.system} is {word} than {self.baseline} by {difference} {test}"

    @property
    def is_significant(self) -> bool:
        """Whether chance alone rarely yields such a difference."""
        return self.p_value < SIGNIFICANT

    @property
    def is_better(self) -> bool:
        """Return whether the system scored better: higher, or for TER lower."""
        return self.difference < 0 if self.metric == "TER" else self.difference > 0


def paired_bootstrap(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    target_language: str,
    lowercase: bool = False,
) -> list[PairedResult]:
    """Compare the first system, the baseline, with each of the others in each metric.

    Every pair is compared on the same samples. References, options and scores are those of
    `sacrebleu_scores`. Equal scores have p = 1 (sacreBLEU would report the smallest p there
    is for two identical outputs).

    Args:
        systems: name and hypotheses (raw text) of each, as many lines as every reference set;
            at least two systems, the baseline first.
        references: reference sets.
        metrics: names out of `METRICS`.
        target_language: decides the tokenizer.
        lowercase: compare without case.

    Returns:
        One result per system other than the baseline and metric, systems in the outer order.
    """
    prepared = {
        name: make_metric(name, references, target_language=target_language, lowercase=lowercase)
        for name in metrics
    }
    with default_seed():
        # references=None: each metric holds the statistics of its references already
        test = PairedTest(list(systems), prepared, None, test_type="bs", n_samples=SAMPLES)
        columns: dict[str, list[Any]] = test()[1]
    names = columns.pop("System")
    return [
        _result(names[0], names[row], metric, column[0], column[row])
        for row in range(1, len(names))
        for metric, column in columns.items()
    ]


def _result(baseline: str, system: str, metric: str, first: Any, other: Any) -> PairedResult:
    difference = float(other.score - first.score)
    p_value = float(other.p_value) if difference else 1.0
    return PairedResult(baseline, system, metric, difference, p_value, SAMPLES)
