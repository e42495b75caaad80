"""The figures of an experiment and its report, from the runs that are on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from jtrans.analysis.attention.pairs import explain_pair
from jtrans.analysis.attention.views import ViewSelection
from jtrans.analysis.figures.frequency import frequency_figures
from jtrans.analysis.figures.length import length_figures
from jtrans.analysis.figures.position import position_figures
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.output.files import write_pair, write_results
from jtrans.analysis.report.report import write_report
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.study import Study
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.errors import JtransError
from jtrans.progress import Progress
from jtrans.runs import Run
from scripts.reproduction.catalogue import Experiment, Row, lowercase_of
from scripts.reproduction.row import Job, curve

SHORT = 6  # words of the sentence whose attention is shown


def runs_of_results(
    job: Job, rows: Sequence[Row], seeds: Sequence[int], splits: Sequence[str]
) -> tuple[list[Run], list[str]]:
    """Return the runs of the rows with a result, and the names of runs that are elsewhere.

    Raises:
        JtransError: a run is not that of the result.
    """
    here, elsewhere = dict[Path, Run](), dict[str, None]()
    for row, seed in product(rows, seeds):
        result, folder = job.finished(row, seed, splits), job.run_folder(row, seed)
        if result is None:
            continue
        if not Run.exists(folder):
            elsewhere[folder.name] = None
            continue
        job.check_run(row, seed)
        here[folder] = Run.open(folder)
        if curve(here[folder]) != result.curve:
            raise JtransError(
                f"{folder} is not the run of {result.file_name}: its validation losses are others",
                hint="copy the run that this result was made from to its place",
                kind="reproduce.other-run",
            )
    return list(here.values()), list(elsewhere)


def draw(
    experiment: Experiment, job: Job, runs: Sequence[Run], progress: Progress, *, checkpoint: str
) -> Path:
    """Write the report and the figures of an experiment; return the page.

    Args:
        experiment: names the analyses.
        job: the settings that all rows share.
        runs: at least one; runs that differ only by seed are one line of a figure.
        progress: receives the progress of the work.
        checkpoint: the checkpoint of every run.
    """
    split = experiment.splits[-1]
    decoding = DecodingChoices(checkpoint, job.device)
    study = load_study(
        runs,
        split,
        decoding,
        data=job.data.folder,
        lowercase=lowercase_of(job.task),
        progress=progress,
    )
    out = job.out / experiment.name
    page, _ = write_report(study, out / "report", progress)
    for name in experiment.analyses:
        if name == "attention":
            _attention(runs[-1], study, out, progress, decoding)
        else:
            write_results(_figures(study, name), out, prefix=f"{split}.")
    return page


def _figures(study: Study, name: str) -> list[Figure | Table]:
    if name == "length":
        return length_figures(study)
    if name == "position":
        return position_figures(study)
    return frequency_figures(study, with_accuracy=not study.token_difference)


def _attention(
    run: Run, study: Study, out: Path, progress: Progress, decoding: DecodingChoices
) -> None:
    """Draw all attention maps of the first short sentence."""
    lengths = [len(words) for words in study.text.length_side.words]
    line = next((n for n, length in enumerate(lengths) if length == SHORT), 0)
    translator = Translator.load([run], decoding)
    source = study.source_lines[line]
    pair = explain_pair(translator, run.name, source, None, line, ViewSelection(), progress)
    write_pair(pair, out, study.split, progress)
