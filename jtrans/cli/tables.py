"""Tables on stdout: Rich on a terminal, aligned plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal

from jtrans.cli.console import is_plain, rich_console, visible

NAME_WIDTH, WORD_WIDTH = 24, 12  # longer names and words may be folded
GAP = 2  # spaces between columns


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Write a table to stdout.

    If the terminal is too narrow, the table is plain and its lines wrap.

    Args:
        columns: headings.
        rows: cells as text.
        right: the headings of right-aligned columns.
    """
    widths = None
    if not is_plain(sys.stdout):
        widths = _widths(columns, rows, right, rich_console().width)
    if widths is None:
        _print_plain(columns, rows, right)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        # with a minimum width instead, Rich would cut columns off
        side: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(Text(name), justify=side, overflow="fold", width=width)
    for line in rows:
        table.add_row(*[Text(visible(cell)) for cell in line])
    rich_console().print(table)


def _print_plain(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]
) -> None:
    from rich.cells import cell_len  # a Chinese letter takes two columns

    cells = [columns, *rows]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        padded = [
            f"{cell:{'>' if name in right else '<'}{width - cell_len(cell) + len(cell)}}"
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        print("  ".join(padded).rstrip())
    sys.stdout.flush()


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], room: int
) -> list[int] | None:
    """Return the widths of columns in a terminal of width `room`, None if they do not fit.

    Numbers are never folded, and names in the first column only if they are long.
    """
    from rich.cells import cell_len

    least, full = [], []
    for place, name in enumerate(columns):
        cells = [visible(row[place]) for row in rows]
        longest = max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)
        words = max((cell_len(word) for cell in cells for word in cell.split()), default=0)
        heading = max(map(cell_len, name.split(" ")))
        full.append(max(cell_len(name), longest))
        if name in right:
            least.append(max(heading, longest))
        else:
            limit = NAME_WIDTH if place == 0 else WORD_WIDTH
            least.append(max(heading, min(limit, longest if place == 0 else words)))
    spare = room - sum(least) - GAP * (len(columns) - 1)
    if spare < 0:
        return None
    for _ in range(min(spare, sum(full) - sum(least))):
        growing = [i for i in range(len(columns)) if least[i] < full[i]]
        least[min(growing, key=least.__getitem__)] += 1
    return least
