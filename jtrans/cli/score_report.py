"""The output of scores: a table with sentences below it, for LaTeX too, or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import console
from jtrans.cli.tables import print_table
from jtrans.errors import CorpusError
from jtrans.evaluation.scores import interval_text, tokenizer_name
from jtrans.evaluation.significance import LEGEND
from jtrans.evaluation.systems import MULTI_BLEU, TITLES, Evaluation, SeedGroup, SystemScores
from jtrans.evaluation.target import TargetLanguage

if TYPE_CHECKING:
    from jtrans.analysis.study.members import Member
    from jtrans.config import Config
    from jtrans.decoding.options import DecodingChoices
    from jtrans.runs import Run

# key -> heading
RUN_COLUMNS = {
    "parameters": "parameters",
    "frozen_parameters": "frozen",
    "tokens_per_second": "tokens/s",
}
TAG_COLUMNS = {"pos_accuracy": "POS accuracy", "entity_f1": "entity F1"}  # the same, in per cent
MUCH_BLEU = 0.5  # that the brevity penalty takes
RIGHT = (*RUN_COLUMNS.values(), *TAG_COLUMNS.values())  # right-aligned


@dataclass(frozen=True)
class Band:
    """The range of a score that the run's configuration expects, and the actual score."""

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
class ScoreReport:
    """Scores with all that is shown beside them."""

    evaluation: Evaluation  # the scores, the baseline first
    target: TargetLanguage  # the language that sacreBLEU's tokenizer is for
    # of runs, in the order of the systems: parameters, tokens per second and the like
    details: Sequence[Mapping[str, Any]] = ()
    bands: Sequence[Band] = ()  # expected scores
    unchecked: Sequence[str] = ()  # why scores were not compared with the expected ones
    other_warnings: Sequence[str] = ()
    is_sweep: bool = False  # the systems are searches of runs

    @property
    def warnings(self) -> list[str]:
        """The warnings about scores that may mislead."""
        doubts = [self.target.warning] if self.target.warning else []
        return [*doubts, *self.evaluation.warnings, *self.other_warnings]

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
            "interval": {_key(name): score.interval for name, score in system.scores.items()},
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
        """Return headings and rows."""
        known = [
            name
            for name in (*RUN_COLUMNS, *TAG_COLUMNS)
            if any(details.get(name) is not None for details in self.details)
        ]
        titles = [TITLES[name] for name in self.evaluation.metrics]
        columns = ["system", *titles, *({**RUN_COLUMNS, **TAG_COLUMNS}[name] for name in known)]
        rows = []
        for index, group in enumerate(self.evaluation.groups):
            paired = [pair for pair in self.evaluation.paired if pair.index == index]
            rows += self._rows(group, known, {pair.metric: pair.mark for pair in paired})
        return columns, rows

    def _sentences(self) -> Iterator[str]:
        """Interpret the table."""
        evaluation = self.evaluation
        if any(pair.mark for pair in evaluation.paired):
            yield LEGEND.format(baseline=evaluation.groups[0].name)
        for pair in evaluation.paired:
            if pair.metric == evaluation.paired[0].metric:  # marks tell of the others
                yield pair.describe()
        has_seeds = any(len(group.runs) > 1 for group in evaluation.groups)
        for group in self._seed_groups:
            yield from self._group_sentences(group)
        if self._seed_groups:
            also = "; of a mean, also over its seeds" if has_seeds else ""
            yield f"± in the table: 95 % interval over sentences{also}"
        if self.details and evaluation.paired and not has_seeds and not self.is_sweep:
            yield "one run of each system: nothing is known of other seeds"
        if MULTI_BLEU in evaluation.metrics:
            number = f", {evaluation.references} references" if evaluation.references > 1 else ""
            words = "each system's own words" if self.details else "what white space separates"
            yield f"multi-bleu: tokenised BLEU on {words}{number}; only for comparison with papers"
        costs = list(filter(None, map(_brevity_sentence, evaluation.systems)))
        yield from costs
        if costs and self.details:
            yield "--length-penalty, chosen on valid, makes translations longer or shorter"
        yield from evaluation.signatures

    @property
    def _seed_groups(self) -> list[SeedGroup]:
        return [group for group in self.evaluation.groups if len(group.members) > 1]

    def _details_of(self, number: int) -> Mapping[str, Any]:
        return self.details[number] if self.details else {}

    def _rows(
        self, group: SeedGroup, known: Sequence[str], marks: Mapping[str, str], indent: str = ""
    ) -> list[list[str]]:
        """Return the row of a group, and below a mean the rows of its runs or checkpoints."""
        row = [indent + group.name]
        for metric in self.evaluation.metrics:
            row.append(f"{_shown(group, metric)} {marks.get(TITLES[metric], '')}".rstrip())
        if len(group.members) == 1:
            number = self.evaluation.systems.index(group.members[0])
            return [[*row, *self._run_cells(number, known)]]
        alone = [SeedGroup(system.name, [system]) for system in group.members]
        parts = group.runs if len(group.runs) > 1 else alone
        below = [row for part in parts for row in self._rows(part, known, {}, f"{indent}  ")]
        return [[*row, *("" for _ in known)], *below]

    def _run_cells(self, number: int, known: Sequence[str]) -> list[str]:
        details = self._details_of(number)
        return [
            ""
            if details.get(name) is None
            else f"{100 * details[name]:.1f}"
            if name in TAG_COLUMNS
            else f"{details[name]:,.0f}"
            for name in known
        ]

    def _group_sentences(self, group: SeedGroup) -> Iterator[str]:
        values = ", ".join(
            f"{TITLES[name]} {group.mean(name):.1f} ± {group.deviation(name):.1f}"
            for name in self.evaluation.metrics
        )
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


def _lengths(system: SystemScores) -> dict[str, float | None]:
    """Return the length of translations beside the references, if BLEU was computed."""
    bleu = system.scores.get("bleu")
    if bleu is None:
        return {}
    return {"length_ratio": bleu.length_ratio, "brevity_penalty": bleu.brevity_penalty}


def _brevity_sentence(system: SystemScores) -> str | None:
    """Say what short translations cost, if it is much."""
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


def report_on_runs(
    runs: Sequence[Run],
    split: str,
    metrics: Sequence[str],
    decoding: DecodingChoices,
    *,
    data: Path | None = None,
    lowercase: bool | None = None,
    tokenizer: str | None = None,
    searches: Mapping[str, DecodingChoices] | None = None,
) -> ScoreReport:
    """Score the translations of a split by some runs, from their result caches where possible.

    Args:
        runs: the first one is the baseline.
        split: of the prepared corpus, which must hold the same text for all runs; all its
            references are used.
        metrics: out of `TITLES`.
        decoding: the checkpoint, or "window" for all of a run's window, and the search.
        data: a prepared corpus to use instead of the one each run was trained on.
        lowercase: compare without case; None: if a run writes lower case.
        tokenizer: of BLEU, one of sacreBLEU's; None: that of the target language.
        searches: in place of that of `decoding`, by what is added to the names of the runs.

    Raises:
        JtransError: no corpus, no such split, different texts or references, no checkpoint.
    """
    from jtrans.analysis.study.load import open_members, open_searches, open_windows
    from jtrans.analysis.study.scores import score_runs, score_searches, score_windows
    from jtrans.runs import WINDOW

    is_window = decoding.checkpoint == WINDOW
    open_all, score_all = (open_windows, score_windows) if is_window else (open_members, score_runs)
    if searches:
        for each in searches.values():
            each.check(runs)
        members = open_searches(runs, split, searches, data, _Bar())
        evaluation = score_searches(members, metrics, lowercase, tokenizer, labels=list(searches))
    else:
        members = open_all(runs, split, decoding, data, _Bar())
        evaluation = score_all(members, metrics, lowercase, tokenizer)
    details = [_details(member) for member in members]
    warnings = _add_tag_scores(members, details)
    language = members[0].run.pipeline.target.language
    target = TargetLanguage(language, "the runs' corpus", chosen=tokenizer)
    if searches:  # what is expected is of one search
        warnings += _fitted(split)
        return ScoreReport(evaluation, target, details, other_warnings=warnings, is_sweep=True)
    bands, unchecked = _bands(members, evaluation, lowercase, tokenizer, is_window=is_window)
    return ScoreReport(evaluation, target, details, bands, unchecked, warnings)


def _fitted(split: str) -> list[str]:
    if split == "valid":
        return []
    return [f"a search that is chosen on {split} is fitted to it: choose with --split valid"]


class _Bar(console.TerminalProgress):
    """A progress bar that does not announce every model loaded."""

    def say(self, label: str, text: str) -> None:
        """Show nothing."""


def _details(member: Member) -> dict[str, Any]:
    return {
        "parameters": member.run.info.get("parameters"),
        "frozen_parameters": member.run.info.get("frozen_parameters") or None,
        "tokens_per_second": member.translation.tokens_per_second,
        "checkpoint": member.checkpoint.name,
        "split": member.text.split,
        "sentences": len(member.hypotheses),
    }


def _add_tag_scores(members: Sequence[Member], details: Sequence[dict[str, Any]]) -> list[str]:
    """Add how well runs tag, if they do and the split has labels; return warnings."""
    from jtrans.analysis.study.tagging import tagging_scores

    warnings = []
    for member, detail in zip(members, details, strict=True):
        try:
            scores = {score.kind: score for score in tagging_scores(member)}
        except CorpusError as error:
            if error.kind != "corpus.other-labels":
                raise
            warnings.append(f"tags are not scored: {error.message}")
            continue
        if scores:
            detail["tagging"] = {kind: asdict(score) for kind, score in scores.items()}
            detail["pos_accuracy"] = scores["pos"].accuracy if "pos" in scores else None
            detail["entity_f1"] = scores["ner"].f1 if "ner" in scores else None
    return warnings


def _bands(
    members: Sequence[Member],
    evaluation: Evaluation,
    lowercase: bool | None,
    tokenizer: str | None,
    *,
    is_window: bool,
) -> tuple[list[Band], list[str]]:
    """Compare every run, of a window its mean, with what its recipe expects.

    Returns:
        The comparisons, and why others were not made.
    """
    from jtrans.models.zoo import system_configs

    by_name = {member.name: member for member in members}
    bands, unchecked = [], []
    for group in [run for seeds in evaluation.groups for run in seeds.runs]:
        member = by_name[group.names[0]]
        config = member.run.config(system_configs())
        if config.data.corpus not in (None, member.run.info.get("corpus")):
            continue  # other data than the recipe's
        reasons = [
            f"it is of {split}, which the corpus does not have"
            for split in config.expect
            if split not in member.corpus.splits
        ]
        expected = config.expect.get(member.text.split)
        if expected is not None:
            others = _other_settings(member, config, lowercase, is_window=is_window)
            usual = tokenizer_name(member.run.pipeline.target.language)
            if expected.metric == "bleu" and tokenizer not in (None, usual):
                others.append(f"it is for the tokenizer {usual}, not {tokenizer}")
            if expected.metric not in evaluation.metrics:
                others.append(f"it is of {expected.metric}, which --metric leaves out")
            reasons += others
            if not others:
                value = group.mean(expected.metric)
                bands.append(Band(group.name, expected.metric, expected.low, expected.high, value))
        unchecked += [f"{group.name}: band not checked: {reason}" for reason in reasons]
    return bands, unchecked


def _other_settings(
    member: Member, config: Config, lowercase: bool | None, *, is_window: bool
) -> list[str]:
    """Return in words how a run was scored in another way than its recipe is."""
    from jtrans.decoding.options import SearchOptions

    usual, used = SearchOptions.from_config(config), member.decoding.search_options(member.run)
    reasons = [
        f"it is for {name.replace('_', ' ')} {value}, not {vars(used)[name]}"
        for name, value in asdict(usual).items()
        if vars(used)[name] != value
    ]
    if not is_window and member.decoding.checkpoint != "best":
        reasons.append(f"it is for the checkpoint best, not {member.decoding.checkpoint}")
    if config.data.corpus not in (None, member.corpus.name):  # by --data
        reasons.append(f"it is for {config.data.corpus}, not {member.corpus.name}")
    if lowercase not in (None, member.words.lowercase):
        reasons.append(f"it is for {'cased' if lowercase else 'lower-cased'} text")
    return reasons


def _shown(group: SeedGroup, metric: str) -> str:
    value = group.mean(metric)
    return f"{value:.1f} {interval_text(value, group.interval(metric), metric)}".rstrip()


def _key(metric: str) -> str:
    return metric.replace("-", "_")
