"""`jtrans analyze report`: all analyses of some runs in one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtrans.cli import console
from jtrans.cli.decoding_options import (
    PRECISIONS,
    BatchTokens,
    Beam,
    Device,
    Precision,
    WhichCheckpoint,
    check_choice,
)
from jtrans.cli.options import Json

if TYPE_CHECKING:
    from jtrans.analysis.report.content import ReportData

OUTPUT = "Output"


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs, the first is the baseline; those that differ only by seed are one system.",
            show_default=False,
        ),
    ],
    split: Annotated[str, typer.Option(help="Split of the prepared corpus.")] = "test",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Prepared corpus.", show_default="the run's own"),
    ] = None,
    hyp: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Translations of the split by another tool; give it again for more.",
            show_default=False,
        ),
    ] = None,
    checkpoint: WhichCheckpoint = "best",
    beam: Beam = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    precision: Precision = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the page and its figures.",
            show_default="reports/ of the first run",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open it in the browser.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Json = False,
) -> None:
    """Gather all analyses of some runs in one page, report.html, that needs no network.

    Translations, forced decoding and attention are computed once per run and kept there.

    [bold]Examples[/bold]

      jtrans analyze report runs/base runs/fast --open

      jtrans analyze report @last --split valid --out report
    """
    from jtrans.analysis.report.report import write_report
    from jtrans.analysis.study.study import load_subjects
    from jtrans.runs import find_run

    check_choice("--precision", precision, PRECISIONS)
    progress = console.TerminalProgress()
    study = load_subjects(
        [find_run(name) for name in runs],
        split,
        device=device,
        precision=precision,
        progress=progress,
        data=data,
        checkpoint=checkpoint,
        search={} if beam is None else {"beam": beam},
        batch_tokens=batch_tokens,
        hypotheses=hyp or [],
    )
    page, gathered = write_report(study, out or study.runs[0].reports_folder, progress)
    if as_json:
        from jtrans.analysis.report.report import as_json as plain

        console.print_json({"page": page.as_posix(), **plain(gathered)})
    else:
        _print(gathered, page)
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _print(data: ReportData, page: Path) -> None:
    from jtrans.analysis.report.report import sentence
    from jtrans.analysis.report.scores import METRICS, TITLES

    rows = []
    for system in data.systems:
        values = data.scores.systems[system.name]
        cells = [f"{values[metric].value:.1f}" for metric in METRICS]
        parameters = "" if system.parameters is None else f"{system.parameters:,}"
        rows.append([system.name, *cells, parameters])
    columns = ["system", *(TITLES[metric] for metric in METRICS), "parameters"]
    console.print_table(columns, rows, right=columns[1:])
    for item in data.scores.comparisons:
        if item.metric == TITLES["bleu"]:
            print(sentence(item))
    for warning in data.warnings:
        console.warn(warning)
    print(page)
