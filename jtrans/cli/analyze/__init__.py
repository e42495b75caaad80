"""`jtrans analyze`: where one system beats another."""

from __future__ import annotations

from jtrans.cli.analyze.alignment import alignment
from jtrans.cli.analyze.attention import attention
from jtrans.cli.analyze.figures import compare, frequency, length, position
from jtrans.cli.analyze.labels import labels
from jtrans.cli.analyze.layers import layers
from jtrans.cli.analyze.report import report
from jtrans.cli.options import CheckedCommand, command_group

analyze = command_group(
    "analyze",
    "Show where one system beats another: figures with intervals, tables, alignments.",
    "jtrans analyze length runs/base runs/fast",
    "jtrans analyze alignment @last --json",
)
ANALYSES = (length, position, frequency, labels, alignment, compare, attention, layers)
for command in (*ANALYSES, report):
    analyze.command(cls=CheckedCommand)(command)
