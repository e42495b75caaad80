"""The output of scores: a table, plain or in LaTeX, with sentences below; or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jtrans.cli.tables import print_table
from jtrans.evaluation.scores import interval_text
from jtrans.evaluation.sentences import ScoredText
from jtrans.evaluation.significance import LEGEND
from jtrans.evaluation.systems import MULTI_BLEU, TITLES, Evaluation, SeedGroup, SystemScores
from jtrans.evaluation.target import TargetLanguage

# detail of a run -> heading
COLUMNS = {
    "parameters": "parameters",
    "frozen_parameters": "frozen",
    "tokens_per_second": "tokens/s",
    "pos_accuracy": "POS accuracy",
    "entity_f1": "entity F1",
}
IN_PER_CENT = ("pos_accuracy", "entity_f1")
RIGHT = tuple(COLUMNS.values())  # right-aligned
MUCH_BLEU = 0.5  # a brevity penalty that costs as much is mentioned


@dataclass(frozen=True)
class Band:
    """The range of a score that a run's recipe expects, and the actual score."""

    system: str
    metric: str
    low: float
    high: float
    value: float

    @property
    def is_held(self) -> bool:
        """Whether the score, rounded as it is shown, lies within the range."""
        return self.low <= round(self.value, 2) <= self.high


@dataclass(frozen=True)
class ScoreReport:
    """Scores and everything that is shown with them."""

    evaluation: Evaluation  # the scores, the baseline first
    target: TargetLanguage  # the language that sacreBLEU's tokenizer is for
    text: ScoredText  # the translations
    # of runs, in the order of the systems: parameters, tokens per second and the like
    details: Sequence[Mapping[str, Any]] = ()
    bands: Sequence[Band] = ()  # expected scores
    unchecked: Sequence[str] = ()  # why scores were not compared with the expected ones
    other_warnings: Sequence[str] = ()

    @property
    def warnings(self) -> list[str]:
        """The warnings about scores that may mislead."""
        warnings = [self.target.warning] if self.target.warning else []
        return [*warnings, *self.evaluation.warnings, *self.other_warnings]

    def to_json(self) -> dict[str, Any]:
        """Return the object of --json."""
        metrics = self.evaluation.metrics
        return {
            "target_language": self.target.language,
            "target_language_from": self.target.taken_from,
            "tokenizer": self.target.tokenizer,
            "warnings": self.warnings,
            "references": self.evaluation.references,
            "systems": [
                self._system_json(number, system)
                for number, system in enumerate(self.evaluation.systems)
            ],
            "paired": [pair.to_json() for pair in self.evaluation.paired],
            "groups": [
                {
                    "name": group.name,
                    "of": "seeds" if len(group.runs) > 1 else "checkpoints",
                    "systems": group.names,
                    "runs": [run.name for run in group.runs],
                    "mean": {_key(name): group.mean(name) for name in metrics},
                    "sd": {_key(name): group.deviation(name) for name in metrics},
                    "interval": {_key(name): group.interval(name) for name in metrics},
                    "interval_ends": {_key(name): group.ends(name) for name in metrics},
                }
                for group in self._seed_groups
            ],
            "expected": [{**vars(band), "is_held": band.is_held} for band in self.bands],
        }

    def _system_json(self, number: int, system: SystemScores) -> dict[str, Any]:
        signatures = {_key(name): score.signature for name, score in system.scores.items()}
        return {
            "name": system.name,
            **{_key(name): system.value(name) for name in self.evaluation.metrics},
            "interval": {_key(name): system.interval(name) for name in system.scores},
            "interval_ends": {_key(name): system.ends(name) for name in system.scores},
            "signature": next(iter(signatures.values()), None),
            "signatures": signatures,
            **_lengths(system),
            **self._details_of(number),
        }

    def print(self) -> None:
        """Print the table, then its interpretation in sentences."""
        columns, rows = self._table()
        print_table(columns, rows, right=RIGHT)
        for sentence in self._sentences():
            print(sentence)

    def print_latex(self) -> None:
        """Print the table for LaTeX, and its interpretation as comments."""
        from jtrans.analysis.output.latex import latex_table

        print(latex_table(*self._table(), right=RIGHT, notes=self._sentences()), end="")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        known = [
            name
            for name in COLUMNS
            if any(details.get(name) is not None for details in self.details)
        ]
        titles = [TITLES.get(name, name) for name in self.evaluation.metrics]
        columns = ["system", *titles, *(COLUMNS[name] for name in known)]
        rows = []
        for index, group in enumerate(self.evaluation.groups):
            paired = [pair for pair in self.evaluation.paired if pair.index == index]
            rows += self._rows(group, known, {pair.metric: pair.mark for pair in paired})
        return columns, rows

    def _sentences(self) -> Iterator[str]:
        evaluation = self.evaluation
        if any(pair.mark for pair in evaluation.paired):
            yield LEGEND.format(baseline=evaluation.groups[0].name)
        for pair in evaluation.paired:
            is_given = pair.metric not in TITLES.values()
            # sacreBLEU's other metrics have only their marks in the table
            if is_given or pair.metric == evaluation.paired[0].metric:
                yield pair.describe()
        has_seeds = any(len(group.runs) > 1 for group in evaluation.groups)
        for group in self._seed_groups:
            yield from self._group_sentences(group)
        yield from self._interval_sentence(has_seeds=has_seeds)
        first, *others = evaluation.groups
        has_other_runs = any(not group.has_same_runs(first) for group in others)
        if self.details and evaluation.paired and not has_seeds and has_other_runs:
            yield "one run of each system: the test does not cover variation between seeds"
        if MULTI_BLEU in evaluation.metrics:
            number = f", {evaluation.references} references" if evaluation.references > 1 else ""
            words = "each system's own words" if self.details else "words separated by white space"
            yield f"multi-bleu: tokenised BLEU on {words}{number}; only for comparison with papers"
        costs = list(filter(None, map(_brevity_sentence, evaluation.systems)))
        yield from costs
        if costs and self.details:
            yield "--length-penalty, chosen on valid, makes translations longer or shorter"
        yield from evaluation.signatures

    def _interval_sentence(self, *, has_seeds: bool) -> Iterator[str]:
        """Explain the intervals in the table, if it has any."""
        shown = [part for group in self.evaluation.groups for part in _with_parts(group)]
        texts = [_interval(group, name) for group in shown for name in self.evaluation.metrics]
        has_width, has_ends = (any(text.startswith(sign) for text in texts) for sign in "±[")
        if has_width or has_ends:
            sign = "±" if has_width else "[low, high]"
            also = "; of a mean, also over its seeds" if has_seeds else ""
            ends = "; [low, high]: its ends, where ± would pass a limit of the metric"
            yield (
                f"{sign} in the table: 95 % interval over sentences{also}"
                f"{ends if has_width and has_ends else ''}"
            )

    @property
    def _seed_groups(self) -> list[SeedGroup]:
        return [group for group in self.evaluation.groups if len(group.members) > 1]

    def _details_of(self, number: int) -> Mapping[str, Any]:
        return self.details[number] if self.details else {}

    def _rows(
        self, group: SeedGroup, known: Sequence[str], marks: Mapping[str, str], indent: str = ""
    ) -> list[list[str]]:
        """Return the row of a group, and of its runs or checkpoints if it has several."""
        row = [indent + group.name]
        for metric in self.evaluation.metrics:
            mark = marks.get(TITLES.get(metric, metric), "")
            row.append(f"{_shown(group, metric)} {mark}".rstrip())
        if len(group.members) == 1:
            number = self.evaluation.systems.index(group.members[0])
            return [[*row, *self._run_cells(number, known)]]
        below = [
            row for part in _parts(group) for row in self._rows(part, known, {}, f"{indent}  ")
        ]
        return [[*row, *("" for _ in known)], *below]

    def _run_cells(self, number: int, known: Sequence[str]) -> list[str]:
        details = self._details_of(number)
        return [_cell(name, details.get(name)) for name in known]

    def _group_sentences(self, group: SeedGroup) -> Iterator[str]:
        values = ", ".join(_spread(group, name) for name in self.evaluation.metrics)
        if len(group.runs) > 1:
            for run in group.runs:
                if len(run.members) > 1:
                    yield from self._group_sentences(run)
            names = ", ".join(run.name for run in group.runs)
            yield f"{names} differ only by seed: {values} (mean ± sd)"
            return
        updates = [f"{int(name.rpartition('@')[2]):,}" for name in group.names]
        yield (
            f"{group.runs[0].name}, window of {len(updates)} validations, updates {updates[0]} to "
            f"{updates[-1]}: {values} (mean ± sd)"
        )


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}" if name in IN_PER_CENT else f"{value:,.0f}"


def _lengths(system: SystemScores) -> dict[str, float | None]:
    """Return the length ratio and the brevity penalty, if BLEU was computed."""
    bleu = system.scores.get("bleu")
    if bleu is None:
        return {}
    return {"length_ratio": bleu.length_ratio, "brevity_penalty": bleu.brevity_penalty}


def _brevity_sentence(system: SystemScores) -> str | None:
    """Return what the brevity penalty costs, None if it is less than `MUCH_BLEU`."""
    bleu = system.scores.get("bleu")
    if bleu is None or not bleu.brevity_penalty or bleu.length_ratio is None:
        return None
    whole = bleu.value / bleu.brevity_penalty
    if whole - bleu.value < MUCH_BLEU:
        return None
    return (
        f"{system.name}: {100 * (1 - bleu.length_ratio):.1f} % shorter than the references; the "
        f"brevity penalty takes {whole - bleu.value:.1f} of {whole:.1f} BLEU"
    )


def _parts(group: SeedGroup) -> list[SeedGroup]:
    """Return the runs or checkpoints that a mean is of."""
    if len(group.members) == 1:
        return []
    alone = [SeedGroup(system.name, [system]) for system in group.members]
    return group.runs if len(group.runs) > 1 else alone


def _with_parts(group: SeedGroup) -> list[SeedGroup]:
    """Return everything with a row: the group, its runs, and their checkpoints."""
    return [group, *(below for part in _parts(group) for below in _with_parts(part))]


def _shown(group: SeedGroup, metric: str) -> str:
    value, decimals = group.mean(metric), group.decimals(metric)
    return f"{value:.{decimals}f} {_interval(group, metric)}".rstrip()


def _interval(group: SeedGroup, metric: str) -> str:
    half, ends = group.interval(metric), group.ends(metric)
    return interval_text(group.mean(metric), half, ends, metric, group.decimals(metric))


def _spread(group: SeedGroup, metric: str) -> str:
    mean, deviation, decimals = group.mean(metric), group.deviation(metric), group.decimals(metric)
    return f"{TITLES.get(metric, metric)} {mean:.{decimals}f} ± {deviation:.{decimals}f}"


def _key(metric: str) -> str:
    """Return the field of a metric in the JSON output; given metrics keep their names."""
    return metric.replace("-", "_") if metric in TITLES else metric
