"""`jtrans analyze`: where one system beats another, as figures, tables and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.cli import console
from jtrans.cli.analyze.attention import attention
from jtrans.cli.analyze.report import report
from jtrans.cli.decoding_options import (
    BatchTokens,
    Beam,
    Device,
    Precision,
    WhichCheckpoint,
    check_choice,
)
from jtrans.cli.options import Json

if TYPE_CHECKING:
    from jtrans.analysis.attention.alignment import LayerAlignment
    from jtrans.analysis.figures.bins import Binning
    from jtrans.analysis.figures.figure import Figure, Table
    from jtrans.analysis.study.study import Study

OUTPUT = "Output"
CELL_LIMIT = 60  # letters of a sentence in a table on the terminal

analyze = typer.Typer(
    name="analyze",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show where one system beats another: figures with intervals, tables, alignments.\n\n"
    "[bold]Examples[/bold]\n\n"
    "  jtrans analyze length runs/base runs/fast\n\n"
    "  jtrans analyze alignment @last --json",
)

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Runs; those that differ only by seed are one system.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option(help="Split of the prepared corpus.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Prepared corpus.", show_default="the run's own"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the files.",
        show_default="reports/ of the first run",
        rich_help_panel=OUTPUT,
    ),
]
Edges = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="Where bins begin.", show_default="those of the paper"),
]
BinKind = Annotated[
    str,
    typer.Option(
        "--bins",
        metavar="reference|quantile",
        help="As in the paper, or with equal numbers of items.",
    ),
]
Hypotheses = Annotated[
    list[Path] | None,
    typer.Option(
        "--hyp",
        metavar="FILE",
        help="Translations of the split by another tool; give it again for more.",
        show_default=False,
    ),
]


@analyze.command()
def length(
    runs: Runs,
    split: Split = "test",
    data: Data = None,
    hyp: Hypotheses = None,
    bins: BinKind = "reference",
    edges: Edges = None,
    checkpoint: WhichCheckpoint = "best",
    beam: Beam = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    precision: Precision = "auto",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show the length of translations, and their quality by length of the source.

    [bold]Examples[/bold]

      jtrans analyze length runs/base runs/fast

      jtrans analyze length @last --edges 5,10,15,20
    """
    from jtrans.analysis.figures.length import length_figures

    binning = _binning(bins, edges)
    study = _study(runs, split, data, checkpoint, beam, batch_tokens, device, precision, hyp)
    _show("length", study, length_figures(study, binning), out, as_json)


@analyze.command()
def position(
    runs: Runs,
    split: Split = "test",
    data: Data = None,
    edges: Edges = None,
    checkpoint: WhichCheckpoint = "best",
    device: Device = None,
    precision: Precision = "auto",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show how often the right next token is the most probable one, by target position.

    [bold]Examples[/bold]

      jtrans analyze position runs/base runs/fast

      jtrans analyze position @last --split valid --json
    """
    from jtrans.analysis.figures.position import position_figures

    binning = _binning("reference", edges)
    study = _study(runs, split, data, checkpoint, None, None, device, precision)
    _show("position", study, position_figures(study, binning), out, as_json)


@analyze.command()
def frequency(
    runs: Runs,
    split: Split = "test",
    data: Data = None,
    hyp: Hypotheses = None,
    bins: BinKind = "reference",
    edges: Edges = None,
    checkpoint: WhichCheckpoint = "best",
    beam: Beam = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    precision: Precision = "auto",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show accuracy and F-measure by how often a word is in the training data.

    [bold]Examples[/bold]

      jtrans analyze frequency runs/base runs/fast

      jtrans analyze frequency @last --bins quantile
    """
    from jtrans.analysis.figures.frequency import frequency_figures

    binning = _binning(bins, edges)
    study = _study(runs, split, data, checkpoint, beam, batch_tokens, device, precision, hyp)
    _show("frequency", study, frequency_figures(study, binning), out, as_json)


@analyze.command()
def alignment(
    runs: Runs,
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Gold links, Pharaoh format.", show_default="the corpus' own"
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this attention map.", show_default="all"),
    ] = None,
    split: Split = "test",
    data: Data = None,
    checkpoint: WhichCheckpoint = "best",
    device: Device = None,
    precision: Precision = "auto",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Read word alignments off the attention, and measure them where there are gold ones.

    The links of the best layer (the last one without gold) are written for every run.

    [bold]Examples[/bold]

      jtrans analyze alignment runs/fast

      jtrans analyze alignment runs/fast --gold test.links --layer reduction
    """
    from jtrans.analysis.attention.alignment import alignment_tables, best_alignment, find_gold

    study = _study(runs, split, data, checkpoint, None, None, device, precision)
    wanted = find_gold(study, gold)
    tables = alignment_tables(study, wanted, layer=layer)
    chosen = [
        (member.name, best_alignment(member, wanted, layer))
        for subject in study.with_model
        for member in subject.run_members
    ]
    _show("alignment", study, tables, out, as_json, links=chosen)


@analyze.command()
def compare(
    runs: Runs,
    split: Split = "test",
    data: Data = None,
    hyp: Hypotheses = None,
    bins: BinKind = "reference",
    edges: Edges = None,
    top: Annotated[int, typer.Option(min=1, help="Sentences and n-grams in each direction.")] = 10,
    checkpoint: WhichCheckpoint = "best",
    beam: Beam = None,
    batch_tokens: BatchTokens = None,
    device: Device = None,
    precision: Precision = "auto",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show sentences and n-grams where systems differ, and whether by more than chance.

    The first system is the baseline.

    [bold]Examples[/bold]

      jtrans analyze compare runs/base runs/fast

      jtrans analyze compare runs/fast --hyp other.en --top 5
    """
    from jtrans.analysis.figures.compare import compare_tables

    binning = _binning(bins, edges)
    study = _study(runs, split, data, checkpoint, beam, batch_tokens, device, precision, hyp)
    _show("compare", study, compare_tables(study, binning, shown=top), out, as_json)


analyze.command()(attention)
analyze.command()(report)


def _binning(kind: str, edges: str | None) -> Binning:
    from jtrans.analysis.figures.bins import Binning, parse_edges

    return Binning(kind, parse_edges(edges))


def _study(
    runs: Sequence[str],
    split: str,
    data: Path | None,
    checkpoint: str,
    beam: int | None,
    batch_tokens: int | None,
    device: str | None,
    precision: str,
    hypotheses: Sequence[Path] | None = None,
) -> Study:
    """Gather what the options name; models are loaded only when they are needed."""
    from jtrans.analysis.study.study import load_subjects
    from jtrans.cli.decoding_options import PRECISIONS
    from jtrans.runs import find_run

    check_choice("--precision", precision, PRECISIONS)
    study = load_subjects(
        [find_run(name) for name in runs],
        split,
        device=device,
        precision=precision,
        progress=console.TerminalProgress(),
        data=data,
        checkpoint=checkpoint,
        search={} if beam is None else {"beam": beam},
        batch_tokens=batch_tokens,
        hypotheses=hypotheses or [],
    )
    for warning in study.warnings:
        console.warn(warning)
    return study


def _show(
    what: str,
    study: Study,
    items: Sequence[Figure | Table],
    out: Path | None,
    as_json: bool,
    *,
    links: Sequence[tuple[str, LayerAlignment]] = (),
) -> None:
    """Write the files, then print the tables or the JSON object."""
    from jtrans.analysis.figures.figure import as_json as plain
    from jtrans.analysis.output.tables import write_items, write_links

    folder = out or study.runs[0].reports_folder
    files = write_items(items, folder, prefix=f"{study.split}.")
    files += write_links(links, folder, prefix=f"{study.split}.")
    if as_json:
        content: dict[str, Any] = {
            "analysis": what,
            "split": study.split,
            "sentences": len(study),
            "references": len(study.text.references),
            "systems": [
                {"name": s.name, "runs": [run.folder.as_posix() for run in s.runs]}
                for s in study.subjects
            ],
            "results": [plain(item) for item in items],
            "warnings": study.warnings,
            "files": [path.as_posix() for path in files],
        }
        console.print_json(content)
        return
    for number, item in enumerate(items):
        _print(item, first=number == 0)
    console.talk(f"{'Written':<12} {len(files)} files in {folder}")
    names = " ".join(run.folder.as_posix() for run in study.runs)
    console.next_step(f"jtrans analyze report {names}")


def _print(item: Figure | Table, *, first: bool) -> None:
    from jtrans.analysis.figures.figure import Figure
    from jtrans.analysis.output.tables import shown_table

    if not first:
        print()
    print(f"{item.title}: {item.question}" if isinstance(item, Figure) else item.title)
    columns, rows = shown_table(item)
    if not rows:
        print("no data")
        return
    cut = [[_cut(cell) for cell in row] for row in rows]
    words = {"system", "layer", "row", "baseline", "better", "n-gram", "source", "reference"}
    console.print_table(columns, cut, right=[name for name in columns[1:] if name not in words])


def _cut(text: str) -> str:
    return text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 3] + "..."
