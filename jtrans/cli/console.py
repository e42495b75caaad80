"""Where the command line speaks: results on stdout, talk on stderr, JSON when asked."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


@dataclass
class Settings:
    """What the options of the top command chose; one per process."""

    quiet: bool = False
    verbose: bool = False
    debug: bool = False


settings = Settings()


def is_plain(stream: Any) -> bool:
    """Say whether `stream` wants plain lines: no terminal, NO_COLOR or TERM=dumb."""
    return (
        not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    )


def rich_console(*, stderr: bool = False) -> Console:
    """Return a Rich console for stdout or stderr that respects plain mode."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    plain = is_plain(stream)
    return Console(
        file=stream,
        stderr=stderr,
        no_color=plain,
        force_terminal=None if not plain else False,
        highlight=False,
        soft_wrap=plain,
        width=None if stream.isatty() else 200,
    )


def talk(text: str = "") -> None:
    """Write one line of talk to stderr, unless --quiet."""
    if not settings.quiet:
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Write a warning to stderr, even with --quiet."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def next_step(command: str) -> None:
    """End a command that made something with the next sensible command."""
    talk(f"Next: {command}")


def print_json(value: Any) -> None:
    """Write the one JSON object of `--json` to stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Write a table to stdout: Rich on a terminal, aligned plain columns elsewhere.

    Args:
        columns: headings.
        rows: cells as text.
        right: the headings of right-aligned columns.
    """
    if is_plain(sys.stdout):
        cells = [list(columns), *[list(row) for row in rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        for row in cells:
            padded = [
                cell.rjust(width) if name in right else cell.ljust(width)
                for cell, width, name in zip(row, widths, columns, strict=True)
            ]
            print("  ".join(padded).rstrip())
        sys.stdout.flush()
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for line in rows:
        table.add_row(*[Text(cell) for cell in line])
    rich_console().print(table)


class TerminalProgress:
    """The `jtrans.progress.Progress` of the command line: one live bar, plain lines elsewhere."""

    def __init__(self) -> None:
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._last_line = 0.0
        self._warned: set[str] = set()

    def say(self, label: str, text: str) -> None:
        """Show one finished line with its label in a column of its own."""
        self._close()
        talk(f"{label:<12} {text}" if label else text)

    def warn(self, text: str) -> None:
        """Show a warning once."""
        if text not in self._warned:
            self._warned.add(text)
            self._close()
            warn(text)

    def advance(self, task: str, done: int, total: int | None = None) -> None:
        """Draw the bar on a terminal; elsewhere a line every 20 seconds."""
        if settings.quiet:
            return
        if is_plain(sys.stderr):
            now = time.monotonic()
            if task != self._name:
                self._name, self._last_line = task, now
            elif now - self._last_line > 20:
                self._last_line = now
                talk(f"{task} {done:,}" + (f" of {total:,}" if total else ""))
            return
        self._draw(task, done, total)

    def _draw(self, task: str, done: int, total: int | None) -> None:
        if self._bar is None or task != self._name:
            self._close()
            self._bar, self._name = _live_bar(), task
            self._task = self._bar.add_task(task, total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
        if total is not None and done >= total:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task, self._name = None, None, ""


def _live_bar() -> RichProgress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=rich_console(stderr=True),
        transient=True,
    )
