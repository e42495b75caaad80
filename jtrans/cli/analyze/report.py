"""`jtrans analyze report`: all analyses of some runs on one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.analyze.options import OUTPUT, OutputOptions, StudyOptions
from jtrans.cli.options import flag, grouped
from jtrans.cli.tables import print_table

if TYPE_CHECKING:
    from jtrans.analysis.report.content import ReportData


@grouped()
def report(
    study: StudyOptions,
    output: OutputOptions,
    open_page: bool = flag("--open", "Open the page in a browser.", panel=OUTPUT),
) -> None:
    """Write all analyses of some runs on one self-contained page, report.html.

    The first system is the baseline. Translations, scores and attention are
    computed once and cached in the runs.

    [bold]Examples[/bold]

    jtrans analyze report runs/base runs/fast --open

    jtrans analyze report @last --split valid --out report

    jtrans analyze report --hyp a.en --hyp b.en --ref test.en --src test.de
    """
    from jtrans.analysis.report.report import as_json, write_report

    systems = study.load(output)
    page, data = write_report(systems, output.folder(systems), console.TerminalProgress())
    if output.as_json:
        console.print_json({"page": page.as_posix(), **as_json(data)})
    else:
        _print(data, page)
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _print(data: ReportData, page: Path) -> None:
    from jtrans.analysis.report.report import verdicts
    from jtrans.evaluation.systems import TITLES

    rows, metrics = [], data.scores.metrics
    for system, values in zip(data.systems, data.scores.systems, strict=True):
        cells = [f"{values[name].value:.1f}" if name in values else "" for name in metrics]
        parameters = "" if system.parameters is None else f"{system.parameters:,}"
        parameters += f" + {system.frozen:,} frozen" if system.frozen else ""
        rows.append([system.name, *cells, parameters])
    columns = ["system", *(TITLES[metric] for metric in metrics), "parameters"]
    if not data.study.with_model:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_table(columns, rows, right=columns[1:])
    for verdict in verdicts(data):
        print(verdict)
    for warning in data.warnings:
        console.warn(warning)
    print(page)
