"""How scores look: the table with its sentences below, or one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jtrans.cli import console

if TYPE_CHECKING:
    from jtrans.evaluation.significance import PairedResult
    from jtrans.evaluation.systems import SeedGroup, SystemScores

SIGNIFICANT = 0.05
TITLES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER", "multi-bleu": "multi-bleu"}


@dataclass(frozen=True)
class Band:
    """A score that the run's configuration expects, and the one it got."""

    system: str
    metric: str
    low: float
    high: float
    value: float

    @property
    def is_held(self) -> bool:
        """Whether the score lies within the band, at the precision it is shown with."""
        return self.low <= round(self.value, 2) <= self.high


@dataclass(frozen=True)
class Report:
    """All there is to show.

    Args:
        metrics: in the order of the columns.
        scores: one per system, the baseline first.
        facts: parameters and tokens per second by system name, where they are known.
        paired: the comparisons with the first system.
        groups: systems that differ only by seed.
        bands: expected scores.
        references: reference sets that were used.
    """

    metrics: Sequence[str]
    scores: Sequence[SystemScores]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paired: Sequence[PairedResult] = ()
    groups: Sequence[SeedGroup] = ()
    bands: Sequence[Band] = ()
    references: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the object of --json."""
        return {
            "references": self.references,
            "systems": [self._system_json(system) for system in self.scores],
            "paired": [
                {
                    "baseline": pair.baseline,
                    "system": pair.system,
                    "metric": pair.metric,
                    "difference": pair.difference,
                    "p_value": pair.p_value,
                    "samples": pair.samples,
                    "is_better": pair.is_better,
                }
                for pair in self.paired
            ],
            "groups": [
                {
                    "systems": group.names,
                    "mean": {_key(name): value for name, value in group.means.items()},
                    "sd": {_key(name): value for name, value in group.deviations.items()},
                }
                for group in self.groups
            ],
            "expected": [
                {
                    "system": band.system,
                    "metric": band.metric,
                    "low": band.low,
                    "high": band.high,
                    "value": band.value,
                    "is_held": band.is_held,
                }
                for band in self.bands
            ],
        }

    def _system_json(self, system: SystemScores) -> dict[str, Any]:
        signatures = {_key(name): score.signature for name, score in system.scores.items()}
        return {
            "name": system.name,
            **{_key(name): system.value(name) for name in self.metrics},
            "interval": {_key(name): score.interval for name, score in system.scores.items()},
            "signature": next(iter(signatures.values()), None),
            "signatures": signatures,
            **self.facts.get(system.name, {}),
        }

    def print(self) -> None:
        """Print the table, then what it means in sentences."""
        facts = [name for name in ("parameters", "tokens_per_second") if self._know(name)]
        titles = [TITLES[name] for name in self.metrics]
        more = {"parameters": "parameters", "tokens_per_second": "tokens/s"}
        console.print_table(
            ["system", *titles, *(more[name] for name in facts)],
            [self._row(system, facts) for system in self.scores],
            right=list(more.values()),
        )
        for pair in self.paired:
            if pair.metric == self.paired[0].metric:  # the stars say it of the other metrics
                print(_sentence(pair))
        for group in self.groups:
            print(self._group_sentence(group))
        if "multi-bleu" in self.metrics:
            number = f", {self.references} references" if self.references > 1 else ""
            print(
                f"multi-bleu: tokenised BLEU on each system's own words{number}; "
                "compare with papers only"
            )
        for signature in dict.fromkeys(
            score.signature for system in self.scores for score in system.scores.values()
        ):
            print(signature)

    def _know(self, name: str) -> bool:
        return any(facts.get(name) is not None for facts in self.facts.values())

    def _row(self, system: SystemScores, facts: Sequence[str]) -> list[str]:
        cells = [system.name]
        for name in self.metrics:
            cell = f"{system.value(name):.1f}"
            if name in system.scores and system.scores[name].interval is not None:
                cell += f" ± {system.scores[name].interval:.1f}"
            cells.append(cell + (" *" if self._is_starred(system.name, TITLES[name]) else ""))
        known = self.facts.get(system.name, {})
        cells += [f"{known[name]:,.0f}" if known.get(name) else "" for name in facts]
        return cells

    def _is_starred(self, name: str, title: str) -> bool:
        return any(
            pair.system == name
            and pair.metric == title
            and pair.is_better
            and pair.p_value < SIGNIFICANT
            for pair in self.paired
        )

    def _group_sentence(self, group: SeedGroup) -> str:
        values = ", ".join(
            f"{TITLES[name]} {group.means[name]:.1f} ± {group.deviations[name]:.1f}"
            for name in self.metrics
        )
        return f"{', '.join(group.names)} differ only by seed: {values} (mean ± sd)"


def _key(metric: str) -> str:
    return metric.replace("-", "_")


def _sentence(pair: PairedResult) -> str:
    test = f"(paired bootstrap, {pair.samples:,} samples, p = {pair.p_value:.3f})"
    if pair.p_value >= SIGNIFICANT:
        return (
            f"{pair.system} and {pair.baseline} do not differ significantly in {pair.metric}: "
            f"{pair.difference:+.1f} {test}"
        )
    word = "better" if pair.is_better else "worse"
    return (
        f"{pair.system} is {word} than {pair.baseline} by "
        f"{abs(pair.difference):.1f} {pair.metric} {test}"
    )
