"""Everything a report shows, as numbers and text; `report` turns it into a page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from jtrans.analysis.attention.layer_alignments import alignment_tables, find_gold
from jtrans.analysis.attention.source_labels import label_figures
from jtrans.analysis.figures.compare import compare_tables, sentence_bleu_figure
from jtrans.analysis.figures.frequency import frequency_figures
from jtrans.analysis.figures.layers import has_layer_weights, layer_tables
from jtrans.analysis.figures.length import length_figures
from jtrans.analysis.figures.position import position_figures
from jtrans.analysis.figures.results import Cell, CurveTable, Figure, Heatmap, Table
from jtrans.analysis.report.examples import ExampleSentence, choose_examples
from jtrans.analysis.report.explorer import ExploredSentence, explored_sentences
from jtrans.analysis.report.scores import ReportScores, report_scores
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study, Subject
from jtrans.analysis.study.training_words import UNKNOWN_TEXT
from jtrans.decoding.options import SearchOptions
from jtrans.errors import CorpusError
from jtrans.models.zoo import system_configs
from jtrans.progress import Progress
from jtrans.runs import Run

MOST_NAMES = 3  # in the title
# the kinds of errors for which only the section of word alignment, or of labels, is left out
NO_ALIGNMENT = ("corpus.alignment-words", "corpus.alignment-empty")
NO_LABELS = ("corpus.no-labels", "corpus.other-labels", "corpus.different-words", *NO_ALIGNMENT)


@dataclass(frozen=True)
class SystemSummary:
    """The properties of a system besides its scores: means over its runs.

    A file of translations has only a name and an index.
    """

    name: str
    index: int  # decides its colour
    kind: str | None = None  # the kind of network, such as ``reformer-fast``
    parameters: int | None = None  # trainable
    updates: float | None = None  # up to the checkpoints in use
    minutes: float | None = None  # of the whole training
    tokens_per_second: float | None = None  # of the translation of the split
    checkpoints: Sequence[tuple[str, str]] = ()  # those in use, and their runs' folders
    frozen: int | None = None  # parameters that were not trained
    decoding: str = ""  # how its runs translated


@dataclass(frozen=True)
class ReportSection:
    """Figures and tables under one heading."""

    name: str
    title: str
    items: list[Figure | Table]


@dataclass(frozen=True)
class ReportData:
    """A whole report."""

    title: str  # of the page
    study: Study  # its systems, and the text of the split
    warnings: list[str]  # caveats for the reader
    systems: list[SystemSummary]
    scores: ReportScores
    curves: list[CurveTable]  # of validation, by update
    sections: list[ReportSection]
    different: list[ExampleSentence]  # examples where systems differ most
    drawn: list[ExampleSentence]  # examples drawn at random
    explored: list[ExploredSentence]  # sentences of the attention explorer


def gather(study: Study, progress: Progress) -> ReportData:
    """Compute, or read from the result caches, everything that a report shows of a study.

    Raises:
        JtransError: a run that cannot be used.
    """
    scores = report_scores(study, progress)
    sections, warnings = _sections(study, progress)
    different, drawn = choose_examples(study)
    return ReportData(
        title=_title([subject.name for subject in study.subjects]),
        study=study,
        warnings=[*study.warnings, *warnings],
        systems=[_summary(subject) for subject in study.subjects],
        scores=scores,
        curves=_training_curves(study),
        sections=sections,
        different=different,
        drawn=drawn,
        explored=explored_sentences(study, [example.line for example in [*different, *drawn]]),
    )


def _title(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMES:
        return f"{names[0]} vs {len(names) - 1} other systems"
    return " vs ".join(names)


def _sections(study: Study, progress: Progress) -> tuple[list[ReportSection], list[str]]:
    sections, warnings = [], []
    progress.say("Figures", "by length, position and training frequency")
    sections.append(ReportSection("length", "By length", length_figures(study)))
    same_tokens = not study.token_difference
    if same_tokens and study.with_model:
        sections.append(ReportSection("position", "By position", position_figures(study)))
    elif study.with_model:
        warnings.append(f"Teacher-forced accuracy is left out: {study.token_difference}.")
    if study.with_model or study.training is not None:
        with _left_out("Quality by training frequency", [UNKNOWN_TEXT], warnings):
            frequency = frequency_figures(study, with_accuracy=same_tokens)
            sections.append(ReportSection("frequency", "By training frequency", frequency))
    else:
        warnings.append(
            "Quality by training frequency is left out: --train FILE names the target side of the "
            "text that the systems were trained on."
        )
    if study.label_names:
        with _left_out("The section of labels", NO_LABELS, warnings):
            title = "By part of speech and entity"
            sections.append(ReportSection("labels", title, label_figures(study)))
    sections.append(ReportSection("sentences", "By sentence", [sentence_bleu_figure(study)]))
    if len(study.subjects) > 1:
        sections.append(ReportSection("compare", "Side by side", [*compare_tables(study)]))
    sections += _layer_sections(study)
    with _left_out("Word alignment", NO_ALIGNMENT, warnings):
        sections += _alignment_sections(study)
    return sections, warnings


@contextmanager
def _left_out(part: str, kinds: Sequence[str], warnings: list[str]) -> Iterator[None]:
    """Leave a part of the report out, with a warning, after an error of one of the kinds."""
    try:
        yield
    except CorpusError as error:
        if error.kind not in kinds:
            raise
        warnings.append(f"{part} is left out: {error.message}.")


def _layer_sections(study: Study) -> list[ReportSection]:
    """Return the section of the systems that weigh earlier layers; none without such systems."""
    layered = [
        subject
        for subject in study.with_model
        if has_layer_weights(subject.run_members[0].run.config(system_configs()).model.system)
    ]
    if not layered:
        return []
    models = ((subject.name, subject.run_members[0].model) for subject in layered)
    maps = [item for item in layer_tables(models) if isinstance(item, Heatmap)]
    return [ReportSection("layers", "Weights of earlier layers", [*maps])]


def _alignment_sections(study: Study) -> list[ReportSection]:
    """Return the section of word alignment; none without gold or attention maps."""
    gold = find_gold(study)
    tables = [] if gold is None else alignment_tables(study, gold)
    if not tables or not tables[-1].rows:
        return []
    return [ReportSection("alignment", "Word alignment", [*tables])]


def _summary(subject: Subject) -> SystemSummary:
    if not subject.has_model:
        return SystemSummary(subject.name, subject.index)
    members = subject.run_members
    first = members[0].run
    parameters = first.info.get("parameters")
    return SystemSummary(
        subject.name,
        subject.index,
        kind=first.config(system_configs()).model.system,
        parameters=int(parameters) if parameters is not None else None,
        updates=_mean([member.checkpoint.update for member in members]),
        minutes=_mean([_minutes(member.run) for member in members]),
        tokens_per_second=_mean([member.translation.tokens_per_second for member in members]),
        checkpoints=[(member.checkpoint.name, str(member.run.folder)) for member in members],
        frozen=int(first.info.get("frozen_parameters") or 0),
        decoding=_decoding(members[0]),
    )


def _decoding(member: Member) -> str:
    """Describe how a run translated: beam, length penalty, and what is unusual."""
    from jtrans.nn.device import resolve_device, resolve_precision  # files need no torch

    usual = asdict(SearchOptions())
    options = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in asdict(member.decoding.search_options(member.run)).items()
        if name in ("beam", "length_penalty") or value != usual[name]
    ]
    device = resolve_device(member.decoding.device)
    precision = resolve_precision(device, member.decoding.precision)
    return ", ".join([*options, f"precision {precision}"])


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of some values, None if any is unknown."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _minutes(run: Run) -> float | None:
    """Return the minutes of training, over all starts."""
    seconds = [event.get("seconds") for event in run.events() if event.get("event") == "end"]
    numbers = [float(value) for value in seconds if isinstance(value, int | float)]
    return max(numbers) / 60 if numbers else None


def _training_curves(study: Study) -> list[CurveTable]:
    """Return validation BLEU and loss by update, each if any run has it."""
    indices = {subject.name: subject.index for subject in study.with_model}
    tables = []
    for name, key, measure in (
        ("training-bleu", "bleu", "BLEU"),
        ("training-loss", "valid_loss", "loss (nats per token)"),
    ):
        rows: list[list[Cell]] = [
            [subject.name, member.name, int(event["update"]), float(event[key])]
            for subject in study.with_model
            for member in subject.run_members
            for event in member.run.validations()
            if event.get(key) is not None
        ]
        columns = ["system", "run", "updates", f"validation {measure}"]
        table = CurveTable(name, f"Validation {measure} by update", columns, rows, indices=indices)
        tables += [table] if rows else []
    return tables
