"""The significance of differences between systems, by paired bootstrap resampling.

Koehn (2004): draw test sets with replacement from the original one, score both systems on each,
and count how often chance alone yields a difference as large as the observed one. Systems with
several seeds are compared by their means, over sentences and seeds (`jtrans.evaluation.seeds`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jtrans.evaluation.seeds import SeedTest

SIGNIFICANT = 0.05  # a lower p-value is called significant
LOWER_IS_BETTER = {"ter", "hter", "character", "wer", "cer", "metricx"}  # error rates
BETTER, WORSE = "*", "↓"  # marks of scores that differ significantly from the baseline's
LEGEND = "* significantly better than {baseline}, ↓ significantly worse (p < 0.05)"


def p_text(p: float, samples: int) -> str:
    """Return a p-value as text: ``p = 0.004``, or ``p <= 0.001`` at the floor of the resampling.

    Args:
        p: the p-value.
        samples: number of drawn test sets: the floor is ``1 / (samples + 1)``.
    """
    if p * (samples + 1) <= 1 + 1e-9:
        return f"p <= {1 / (samples + 1):.3f}"
    text = f"{p:.3f}"
    if (float(text) < SIGNIFICANT) != (p < SIGNIFICANT):
        text = f"{p:.5f}"  # rounding must not contradict the significance
    return f"p = {text}"


@dataclass(frozen=True, kw_only=True)
class PairedResult(SeedTest):
    """A system compared with the baseline in one metric, by means over seeds if it has several."""

    baseline: str  # name of the baseline
    system: str  # name of the system
    metric: str  # ``BLEU``, ``chrF2``, ``chrF2++``, ``TER``, or that of given sentence scores
    index: int = 1  # of the system among those compared; the baseline is 0
    baseline_runs: int = 1  # number of the baseline's runs, which differ only by seed
    system_runs: int = 1  # number of the system's runs
    decimals: int = 1  # of scores, to show

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PairedResult:
        """Parse the output of `to_json`."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        added = ("is_better", "is_significant", "mark", "resampled")
        return {**vars(self), **{name: getattr(self, name) for name in added}}

    def describe(self) -> str:
        """Describe in words how the system compares with the baseline."""
        test = f"({self._test()}, {self.samples:,} samples, {p_text(self.p_value, self.samples)})"
        if not self.is_significant:
            return (
                f"{self.system} and {self.baseline} do not differ significantly in {self.metric}: "
                f"{self.difference:+z.{self.decimals}f} {test}"
            )
        word = "better" if self.is_better else "worse"
        size = f"{abs(self.difference):.{self.decimals}f}"
        if not float(size):
            size = f"less than {0.5 * 10**-self.decimals:g}"
        difference = f"{size} {self.metric}"
        return f"{self.system} is {word} than {self.baseline} by {difference} {test}"

    def _test(self) -> str:
        text = f"paired bootstrap over {self.resampled}"
        if not self.has_seeds:
            return text
        runs = f"{self.system_runs} + {self.baseline_runs}"
        text = text.replace("seeds", f"{self.system_runs if self.is_same_runs else runs} seeds")
        return text + (
            "; a single run is given the deviation between seeds of the other systems"
            if self.is_borrowed
            else ""
        )

    @property
    def resampled(self) -> str:
        """What varies in the test: sentences, or sentences and seeds."""
        return "sentences and seeds" if self.has_seeds else "sentences"

    @property
    def is_significant(self) -> bool:
        """Whether chance alone rarely yields such a difference."""
        return self.p_value < SIGNIFICANT

    @property
    def is_better(self) -> bool:
        """Whether the system scored better: higher, or in an error rate lower."""
        name = re.split("[^a-z]", self.metric.lower())[0]  # of MetricX-24: metricx
        return self.difference < 0 if name in LOWER_IS_BETTER else self.difference > 0

    @property
    def mark(self) -> str:
        """The mark of a significant difference, empty if the difference is not significant."""
        if not self.is_significant:
            return ""
        return BETTER if self.is_better else WORSE
