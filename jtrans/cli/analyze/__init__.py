"""`jtrans analyze`: where one system beats another, one file a group of analyses."""

from __future__ import annotations

import typer

from jtrans.cli.analyze.alignment import alignment
from jtrans.cli.analyze.attention import attention
from jtrans.cli.analyze.figures import compare, frequency, length, position
from jtrans.cli.analyze.report import report

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
for command in (length, position, frequency, alignment, compare, attention, report):
    analyze.command()(command)

__all__ = ["analyze"]
