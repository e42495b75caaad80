"""All analyses of some systems as one self-contained page, and its parts as files."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from jtrans.analysis.figures.results import Figure, Heatmap, Table
from jtrans.analysis.figures.results import as_json as item_json
from jtrans.analysis.output.charts import draw, draw_curves
from jtrans.analysis.output.files import is_written, remove_renumbered, write_results
from jtrans.analysis.output.labels import LONG_TEXT, TAIL
from jtrans.analysis.output.weight_maps import weights_svg
from jtrans.analysis.report.content import ReportData, gather
from jtrans.analysis.report.examples import TranslationPart, are_all_long, between
from jtrans.analysis.report.explorer import explorer
from jtrans.analysis.report.page_tables import NameMarker, page_table
from jtrans.analysis.report.pages import render
from jtrans.analysis.study.study import Study
from jtrans.evaluation.scores import interval_text
from jtrans.evaluation.systems import TITLES
from jtrans.files import write_text
from jtrans.progress import Progress
from jtrans.text.segment import has_spaces

PAGE = "report.html"
MOST_HIDDEN = 4_000  # letters of a long text that are on the page, folded
SENTENCES = "compare-sentences"
LANGUAGES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ru": "Russian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def write_report(study: Study, folder: Path, progress: Progress) -> tuple[Path, ReportData]:
    """Write the page, and every figure and table as files beside it.

    Returns:
        The path of the page, and its data.

    Raises:
        JtransError: a run that cannot be used, or a folder that cannot be written.
    """
    data = gather(study, progress)
    progress.say("Writing", f"{folder / PAGE} and its figures")
    items = [*(item for section in data.sections for item in section.items), scores_table(data)]
    prefix = f"{study.split}."
    new = [item for item in items if not is_written(item, folder, prefix=prefix)]
    write_results(new, folder, prefix=prefix)
    remove_renumbered(items, folder, prefix=prefix)
    write_text(folder / PAGE, page(data))
    return folder / PAGE, data


def page(data: ReportData) -> str:
    """Return the page as HTML."""
    languages = data.study.languages
    explored = [(s.name, s.index) for s in data.systems if s.kind is not None]
    curves = (curve for group in data.curves.values() for curve in group)
    with_points = {curve.index for curve in curves if curve.points}
    return render(
        "report.html",
        report=data,
        named=NameMarker([system.name for system in data.systems]),
        study=data.study,
        has_seeds=any(len(system.checkpoints) > 1 for system in data.systems),
        references=len(data.study.text.references),
        languages=languages,
        language_name=" → ".join(LANGUAGES.get(code, code) for code in languages),
        learned=[(s.name, s.index) for s in data.systems if s.index in with_points],
        metrics=[(metric, TITLES[metric]) for metric in data.scores.metrics],
        interval_text=interval_text,
        verdicts=verdicts(data),
        between=between,
        are_long=are_all_long(data.study),
        spaced=has_spaces(languages[-1]),
        plain=partial(TranslationPart, is_shared=True),
        limits={"shown": LONG_TEXT, "tail": TAIL, "hidden": MOST_HIDDEN},
        curves=_curves(data),
        sections=[
            {
                "name": section.name,
                "title": section.title,
                # sentences are among the examples, where they can be read
                "entries": [_entry(i) for i in section.items if not i.name.startswith(SENTENCES)],
            }
            for section in data.sections
        ],
        explorer=explorer(explored, data.explored) if data.explored else None,
    )


def verdicts(data: ReportData) -> list[str]:
    """Describe in words how each system compares with the first in BLEU."""
    return [
        f"{item.describe()}." for item in data.scores.comparisons if item.metric == TITLES["bleu"]
    ]


def scores_table(data: ReportData) -> Table:
    """Return the scores as a table for files."""
    columns = ["system", "parameters", "frozen parameters"]
    for metric in data.scores.metrics:
        columns += [TITLES[metric], f"{TITLES[metric]} ±"]
    rows: list[list[Any]] = []
    for system, values in zip(data.systems, data.scores.systems, strict=True):
        row: list[Any] = [system.name, system.parameters, system.frozen]
        for metric in data.scores.metrics:
            score = values.get(metric)
            row += [score and score.value, score and score.interval]
        rows.append(row)
    note = "; ".join(data.scores.signatures)
    return Table("scores", "Scores", columns, rows, note)


def _curves(data: ReportData) -> list[Markup]:
    titles = {"BLEU": "validation BLEU", "loss": "validation loss (nats per token)"}
    return [
        Markup(draw_curves(curves, "updates", titles[name], f"{titles[name]} by update"))
        for name, curves in data.curves.items()
    ]


def _entry(item: Figure | Table) -> dict[str, Any]:
    """Return the template's data of a figure or table."""
    series = item.series if isinstance(item, Figure) else []
    svg = None
    if isinstance(item, Figure):
        svg = Markup(draw(item))
    elif isinstance(item, Heatmap):
        svg = Markup(weights_svg(item))
    return {
        "item": item,
        "table": page_table(item),
        "svg": svg,
        "numbers": "Numbers" if isinstance(item, Heatmap) else "Numbers with 95 % intervals",
        "names": [(line.system, line.index) for line in series],
    }


def _scores_json(data: ReportData) -> dict[str, Any]:
    """Return the scores by the names of the systems, which are distinct."""
    return {
        system.name: {metric: asdict(value) for metric, value in values.items()}
        for system, values in zip(data.systems, data.scores.systems, strict=True)
    }


def as_json(data: ReportData) -> dict[str, Any]:
    """Return the numbers of a report as plain values."""
    return {
        "analysis": "report",
        "corpus": None if data.study.corpus is None else data.study.corpus.name,
        "split": data.study.split,
        "sentences": len(data.study),
        "references": len(data.study.text.references),
        "lowercase": data.study.lowercase,
        "systems": [vars(system) for system in data.systems],
        "scores": {**data.scores.to_json(), "systems": _scores_json(data)},
        "results": [item_json(item) for section in data.sections for item in section.items],
        "warnings": data.warnings,
    }
