"""Everything a report shows, gathered: only `report` knows that it becomes a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.analysis.attention.store import StoredExplanation, explain_lines
from jtrans.analysis.figures.figure import Figure, Table
from jtrans.analysis.output.charts import Curve
from jtrans.analysis.report.examples import Example, choose_examples
from jtrans.analysis.report.scores import Scores, score_study
from jtrans.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtrans.analysis.study.study import Study, Subject
    from jtrans.progress import Progress
    from jtrans.runs import Run

EXPLORED = 5  # sentences in the attention explorer
EXPLORED_PIECES = (6, 24)  # shortest and longest: fewer show little, more cells are not read
EXPLORED_BYTES = 1_200_000  # of weights in a page, before base64 adds a third


@dataclass(frozen=True)
class SystemFacts:
    """What is known of a system besides its scores.

    Args:
        name: of the system.
        index: of its colour.
        kind: of network, such as ``reformer-fast``; None for a file of translations.
        parameters: trainable numbers.
        checkpoint: that was used.
        updates: of training up to that checkpoint.
        minutes: of training in all.
        tokens_per_second: when it translated the split.
        runs: folders, by seed.
    """

    name: str
    index: int
    kind: str | None
    parameters: int | None
    checkpoint: str | None
    updates: int | None
    minutes: float | None
    tokens_per_second: float | None
    runs: list[str]


@dataclass(frozen=True)
class Section:
    """Figures and tables under one heading."""

    name: str
    title: str
    items: list[Figure | Table]


@dataclass(frozen=True)
class ExploredSentence:
    """One sentence of the explorer, with a pair per system that has a model.

    Of several references it shows the first.
    """

    line: int
    source: str
    reference: str
    pairs: list[StoredExplanation]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page."""
        start = self.source if len(self.source) <= 60 else self.source[:57] + "..."
        return {
            "label": f"{self.line + 1}: {start}",
            "source": self.source,
            "reference": self.reference,
            "pairs": [pair.to_json() for pair in self.pairs],
        }


@dataclass(frozen=True)
class ReportData:
    """A whole report.

    Args:
        title: of the page.
        languages: source and target.
        corpus: its name.
        split: its name.
        sentences: how many it has.
        references: how many each sentence has.
        lowercase: whether scores compare without case.
        warnings: what a reader must know.
        systems: in order.
        scores: of all systems.
        curves: validation curves by what they show, ``BLEU`` and ``loss``.
        sections: figures and tables.
        different: examples where systems differ most.
        drawn: examples drawn at random.
        explored: sentences of the attention explorer.
    """

    title: str
    languages: tuple[str, str]
    corpus: str
    split: str
    sentences: int
    references: int
    lowercase: bool
    warnings: list[str]
    systems: list[SystemFacts]
    scores: Scores
    curves: Mapping[str, list[Curve]]
    sections: list[Section]
    different: list[Example]
    drawn: list[Example]
    explored: list[ExploredSentence]


def gather(study: Study, progress: Progress) -> ReportData:
    """Compute, or read where it is kept, all that a report shows.

    Args:
        study: the systems.
        progress: told how far the work is.

    Raises:
        JtransError: a run that cannot be used.
    """
    scores = score_study(study, progress)
    sections, warnings = _sections(study, progress)
    different, drawn = choose_examples(study)
    names = " vs ".join(subject.name for subject in study.subjects)
    return ReportData(
        title=names,
        languages=study.corpus.languages,
        corpus=study.corpus.name,
        split=study.split,
        sentences=len(study),
        references=len(study.text.references),
        lowercase=study.lowercase,
        warnings=[*study.warnings, *warnings],
        systems=[_facts(subject) for subject in study.subjects],
        scores=scores,
        curves=_training_curves(study),
        sections=sections,
        different=different,
        drawn=drawn,
        explored=_explored(study, [*different, *drawn], progress),
    )


def _sections(study: Study, progress: Progress) -> tuple[list[Section], list[str]]:
    from jtrans.analysis.attention.alignment import alignment_tables, find_gold
    from jtrans.analysis.figures.compare import compare_tables
    from jtrans.analysis.figures.frequency import frequency_figures
    from jtrans.analysis.figures.length import length_figures
    from jtrans.analysis.figures.position import position_figures

    sections, warnings = [], []
    progress.say("Figures", "by length, position and training frequency")
    sections.append(Section("length", "By length", length_figures(study)))
    same_tokens = not study.different_tokens
    if same_tokens:
        sections.append(Section("position", "By position", position_figures(study)))
    else:
        warnings.append(
            f"Accuracies of tokens are left out: {', '.join(study.different_tokens)} and "
            f"{study.runs[0].name} have different target tokens."
        )
    frequency = frequency_figures(study, with_accuracy=same_tokens)
    sections.append(Section("frequency", "By training frequency", frequency))
    if len(study.subjects) > 1:
        sections.append(Section("compare", "Side by side", [*compare_tables(study)]))
    gold = find_gold(study)
    if gold is not None:
        try:
            tables: list[Figure | Table] = [*alignment_tables(study, gold)]
            sections.append(Section("alignment", "Word alignment", tables))
        except CorpusError as error:
            if error.kind != "corpus.alignment-words":
                raise
            warnings.append(f"Word alignment is left out: {error.message}.")
    return sections, warnings


def _facts(subject: Subject) -> SystemFacts:
    if not subject.has_model:
        return SystemFacts(subject.name, subject.index, None, None, None, None, None, None, [])
    from jtrans.models.zoo import system_configs

    first = subject.run_members[0]
    checkpoint = first.run.checkpoint(first.how.checkpoint)
    parameters = first.run.facts.get("parameters")
    return SystemFacts(
        subject.name,
        subject.index,
        first.run.config(system_configs()).model.system,
        int(parameters) if parameters is not None else None,
        checkpoint.name,
        checkpoint.update,
        _minutes(first.run),
        first.tokens_per_second,
        [str(run.folder) for run in subject.runs],
    )


def _minutes(run: Run) -> float | None:
    """Return the minutes of training, over all the times it was started."""
    seconds = [event.get("seconds") for event in run.events() if event.get("event") == "end"]
    known = [float(value) for value in seconds if isinstance(value, int | float)]
    return max(known) / 60 if known else None


def _training_curves(study: Study) -> dict[str, list[Curve]]:
    """Return valid BLEU and loss by update; the seeds of a system share its colour."""
    curves: dict[str, list[Curve]] = {}
    for title, key in (("BLEU", "bleu"), ("loss", "valid_loss")):
        curves[title] = [
            Curve(
                subject.name if number == 0 else "",
                subject.index,
                [
                    (float(event["update"]), float(event[key]))
                    for event in run.events()
                    if event.get("event") == "validation" and event.get(key) is not None
                ],
            )
            for subject in study.with_model
            for number, run in enumerate(subject.runs)
        ]
    return {title: found for title, found in curves.items() if any(c.points for c in found)}


def _explored(
    study: Study, examples: Sequence[Example], progress: Progress
) -> list[ExploredSentence]:
    """Return attention for the first examples that are short enough, within the budget."""
    common = study.runs[0].pipeline.target
    lines = _short_lines(study, [example.line for example in examples])
    explained = [
        explain_lines(subject.run_members[0], lines, common, progress)
        for subject in study.with_model
    ]
    result: list[ExploredSentence] = []
    size = 0
    for line, *pairs in zip(lines, *explained, strict=True):
        size += sum(item.weights.size for pair in pairs for item in pair.maps)
        if size > EXPLORED_BYTES:
            break
        result.append(
            ExploredSentence(
                line, study.source_lines[line], study.reference_lines[line], list(pairs)
            )
        )
    return result


def _short_lines(study: Study, lines: Sequence[int]) -> list[int]:
    """Return the first lines with neither few nor many pieces; else the shortest line."""

    def longest(line: int) -> int:
        members = [subject.run_members[0] for subject in study.with_model]
        own = [member.source_pieces[line] for member in members]
        words = [(m.run.pipeline.target, m.hypothesis_words[line]) for m in members]
        return max(map(len, [*own, *(side.split(translation) for side, translation in words)]))

    lengths = {line: longest(line) for line in lines}
    least, most = EXPLORED_PIECES
    fit = [line for line in lines if least <= lengths[line] <= most]
    return fit[:EXPLORED] or sorted(lines, key=lambda line: lengths[line])[:1]
