"""All analyses of some systems as one self-contained page, and its parts as files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from jtrans.analysis.figures.results import Figure, Heatmap, Table
from jtrans.analysis.figures.results import as_json as item_json
from jtrans.analysis.output.charts import draw, draw_curves
from jtrans.analysis.output.files import is_written, remove_renumbered, write_results
from jtrans.analysis.output.labels import LONG_TEXT, TAIL, with_signs
from jtrans.analysis.output.weight_maps import weights_svg
from jtrans.analysis.report.content import ReportData, gather
from jtrans.analysis.report.examples import TranslationPart, are_all_long, between
from jtrans.analysis.report.explorer import explorer
from jtrans.analysis.report.page_tables import NameMarker, page_table
from jtrans.analysis.report.pages import render
from jtrans.analysis.study.study import Study
from jtrans.evaluation.scores import interval_text
from jtrans.evaluation.significance import PairedResult
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
    items = [item for section in data.sections for item in section.items]
    items += [*data.curves, *scores_tables(data)]
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
    with_points = {curve.index for item in data.curves for curve in item.curves}
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
        verdicts=[with_signs(sentence) for sentence in verdicts(data)],
        between=between,
        are_long=are_all_long(data.study),
        spaced=has_spaces(languages[-1]),
        plain=partial(TranslationPart, is_shared=True),
        limits={"shown": LONG_TEXT, "tail": TAIL, "hidden": MOST_HIDDEN},
        curves=[Markup(draw_curves(item)) for item in data.curves],
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


def scores_tables(data: ReportData) -> list[Table]:
    """Return the scores, and the comparisons behind their marks, as tables for files."""
    optional: list[tuple[str, list[Any]]] = [
        ("parameters", [system.parameters for system in data.systems]),
        ("frozen parameters", [system.frozen for system in data.systems]),
    ]
    for metric in data.scores.metrics:
        title, scores = TITLES[metric], [values.get(metric) for values in data.scores.systems]
        optional += [
            (title, [score and score.value for score in scores]),
            (f"{title} ±", [score and score.interval for score in scores]),
            (f"{title} low", [score and score.low for score in scores]),
            (f"{title} high", [score and score.high for score in scores]),
            (f"{title} seeds ±", [score and score.spread for score in scores]),
        ]
    optional += [
        ("updates", [_whole(system.updates) for system in data.systems]),
        ("training minutes", [system.minutes for system in data.systems]),
        ("tokens/s", [system.tokens_per_second for system in data.systems]),
    ]
    known = [(title, cells) for title, cells in optional if any(c is not None for c in cells)]
    cells = zip((system.name for system in data.systems), *(of for _, of in known), strict=True)
    columns = ["system", *(title for title, _ in known)]
    note = "; ".join(data.scores.signatures)
    scores_table = Table("scores", "Scores", columns, [list(row) for row in cells], note)
    return [scores_table, *_significance(data.scores.comparisons)]


def _whole(number: float | None) -> float | int | None:
    """Return a mean of whole numbers without a decimal point if it is whole itself."""
    return int(number) if number is not None and number.is_integer() else number


def _significance(comparisons: Sequence[PairedResult]) -> list[Table]:
    if not comparisons:
        return []
    columns = ["baseline", "system", "metric", "difference", "p", "runs baseline", "runs system"]
    rows: list[list[Any]] = [
        [
            item.baseline,
            item.system,
            item.metric,
            item.difference,
            item.p_value,
            item.baseline_runs,
            item.system_runs,
        ]
        for item in comparisons
    ]
    resampled = " or ".join(sorted({item.resampled for item in comparisons}))
    note = f"Paired bootstrap over {resampled}, {comparisons[0].samples:,} samples, two-sided."
    return [Table("scores-significance", "Differences in score", columns, rows, note)]


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


def as_json(data: ReportData) -> dict[str, Any]:
    """Return the numbers of a report as plain values."""
    scores, names = data.scores.to_json(), [system.name for system in data.systems]
    return {
        "analysis": "report",
        "corpus": None if data.study.corpus is None else data.study.corpus.name,
        "split": data.study.split,
        "sentences": len(data.study),
        "references": len(data.study.text.references),
        "lowercase": data.study.lowercase,
        "systems": [vars(system) for system in data.systems],
        "scores": {**scores, "systems": dict(zip(names, scores["systems"], strict=True))},
        "results": [item_json(item) for section in data.sections for item in section.items],
        "warnings": data.warnings,
    }
