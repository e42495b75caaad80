"""The output of the command line: results on stdout, messages on stderr, JSON if requested."""

from __future__ import annotations

import errno
import inspect
import io
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from typing_extensions import Buffer


@dataclass
class Settings:
    """The global options; one object per process."""

    quiet: bool = False
    arguments: Sequence[str] = ()  # the whole command, as typed


settings = Settings()


# Control characters in a text could move the cursor or colour the screen.
_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


def visible(text: str) -> str:
    """Return a text with visible symbols for control characters other than tabs and newlines."""
    return text.translate(_CONTROLS)


class VisibleText:
    """A stream that shows control characters instead of sending them to the terminal."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.rich_proxied_file = stream  # Rich looks for this name: its own codes bypass `write`

    def write(self, text: str, /) -> int:
        """Write a text with visible symbols for control characters."""
        return self.rich_proxied_file.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the stream."""
        return getattr(self.rich_proxied_file, name)


class Lasting(io.FileIO):
    """A terminal or pipe as a file that drops what is written once its reader is gone.

    Writing to a closed terminal fails before the system sends SIGHUP, and a process that ignores
    SIGHUP (nohup, disown) must continue: only the signal may end the work. Messages to a pipe that
    nobody reads (``2>&1 | head``) must not end it, either.
    """

    def write(self, data: Buffer, /) -> int:
        """Write the data, or drop it if nobody can read it."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE, errno.ECONNRESET):
                raise
            return memoryview(data).nbytes


class Results:
    """Standard output for what jtrans.cli writes; what other code prints goes to stderr.

    Third-party systems and libraries may print when they are imported or run, and their output
    would be read as part of the translations or the JSON.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        """Write to stdout if the innermost caller in jtrans is in jtrans.cli, else to stderr."""
        frame = inspect.currentframe()
        while frame := frame and frame.f_back:
            module = frame.f_globals.get("__name__") or ""
            if module.startswith(("jtrans.", "__main__")):
                is_result = module.startswith(("jtrans.cli.", "__main__"))
                stream = self.stream if is_result else sys.stderr
                break
        else:
            stream = sys.stderr  # a thread without jtrans among its callers
        return int(stream.write(text))

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the stream."""
        return getattr(self.stream, name)


def keep_results_apart() -> None:
    """Let only jtrans.cli write to stdout."""
    if not isinstance(sys.stdout, Results):
        sys.stdout = Results(sys.stdout)


def outlive_readers() -> None:
    """Let terminals, and a pipe at stderr, drop text once their reader is gone.

    A pipe at stdout is left alone: work whose results nobody reads should end.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        is_pipe = name == "stderr" and _is_pipe(stream)
        if stream.isatty() or is_pipe:
            stream.flush()
            file = io.BufferedWriter(Lasting(stream.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(file, encoding="utf-8", line_buffering=True)
            setattr(sys, name, text if is_pipe else VisibleText(text))


def _is_pipe(stream: Any) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False  # closed, or a stream of a test
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def show_log(*, is_shown: bool) -> None:
    """Show the package's log on stderr: all of it with times since the start, or only warnings."""
    log = logging.getLogger("jtrans")
    log.handlers.clear()
    handler = logging.StreamHandler(sys.stderr)
    style = "{relativeCreated:7.0f} ms  {message}" if is_shown else "warning: {message}"
    handler.setFormatter(logging.Formatter(style, style="{"))
    if not is_shown:
        handler.addFilter(_Once())
    log.addHandler(handler)
    log.setLevel(logging.INFO if is_shown else logging.WARNING)


class _Once(logging.Filter):
    """Lets every message pass once."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new


def is_plain(stream: Any) -> bool:
    """Return whether `stream` needs plain lines: it is no terminal, or NO_COLOR or TERM=dumb."""
    return (
        not stream.isatty()
        or bool(os.environ.get("NO_COLOR"))
        or os.environ.get("TERM", "dumb") == "dumb"
    )


def rich_console(*, is_stderr: bool = False) -> Console:
    """Return a Rich console for stdout or stderr that respects plain mode."""
    from rich.console import Console

    stream = sys.stderr if is_stderr else sys.stdout
    plain = is_plain(stream)
    return Console(
        file=stream,
        stderr=is_stderr,
        no_color=plain,
        force_terminal=None if not plain else False,
        highlight=False,
        soft_wrap=plain,
        width=None if stream.isatty() else 200,
    )


def talk(text: str = "") -> None:
    """Write a line to stderr, unless --quiet."""
    if not settings.quiet:
        print(text, file=sys.stderr, flush=True)


def say(label: str, text: str) -> None:
    """Write a line with its label in a column of its own to stderr, unless --quiet."""
    talk(f"{label:<12} {text}" if label else text)


def warn(text: str) -> None:
    """Write a warning to stderr, even with --quiet."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def next_step(command: str) -> None:
    """Suggest the next command, after a command that wrote results."""
    talk(f"Next: {command}")


def print_json(value: Any) -> None:
    """Write the JSON object of `--json` to stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


_bars: set[RichProgress] = set()  # those being drawn


def close_bars() -> None:
    """End all bars: an open one hides the cursor and redirects the standard streams."""
    while _bars:
        _bars.pop().stop()


class TerminalProgress:
    """The `jtrans.progress.Progress` of the command line: one live bar, plain lines elsewhere."""

    def __init__(self) -> None:
        self._bar: RichProgress | None = None
        self._name = ""
        self._lines: _PlainLines | None = None
        self._warned: set[str] = set()

    def say(self, label: str, text: str) -> None:
        """Show a line with its label in a column of its own."""
        self._close()
        say(label, text)

    def warn(self, text: str) -> None:
        """Show a warning once."""
        if text not in self._warned:
            self._warned.add(text)
            self._close()
            warn(text)

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Draw the bar on a terminal; elsewhere write a line every 20 seconds."""
        if settings.quiet:
            return
        if is_plain(sys.stderr):
            if self._lines is None or self._lines.task != task:
                self._lines = _PlainLines(task, done, unit)
            self._lines.advance(done, total)
        else:
            self._draw(task, done, total, unit)
        if total is not None and done >= total:
            self._close()

    def _draw(self, task: str, done: int, total: int | None, unit: str) -> None:
        if self._bar is None or task != self._name:
            self._close()
            self._bar, self._name = _live_bar(unit, is_open=total is None), task
            self._bar.add_task(task, total=total, completed=done)
            self._bar.start()
            _bars.add(self._bar)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            _bars.discard(self._bar)
            self._bar, self._name = None, ""
        self._lines = None  # the next task counts from its own start, even if it has the same name


# Columns of "1,695.2/6,657.6 MB 364.3 MB/s 0:00:17 left" with a bar of eight.
_FIGURES_WIDTH = 52


@dataclass
class _PlainLines:
    """Shows the progress of a task without a bar: an occasional line."""

    task: str  # its name
    begin: int  # the initial count: a resumed download does not start at 0
    unit: str  # see `jtrans.progress.Progress.advance`
    SECONDS_BETWEEN: ClassVar = 20

    def __post_init__(self) -> None:
        self._started = self._last = time.monotonic()

    def advance(self, done: int, total: int | None) -> None:
        """Write a line, unless the last one is recent."""
        now = time.monotonic()
        if now - self._last > self.SECONDS_BETWEEN:
            self._last = now
            talk(self._describe(done, total, now - self._started))

    def _describe(self, done: int, total: int | None, seconds: float) -> str:
        text = f"{self.task} {_amount(done, self.unit)}"
        if total:
            text += f" of {_amount(total, self.unit)}"
        rate = (done - self.begin) / seconds
        if self.unit:
            text += f", {_amount(round(rate), self.unit)}/s"
        if total and rate > 0:
            left = max(total - done, 0) / rate
            text += f", {int(left // 60)}:{int(left % 60):02} min left"
        return text


def _amount(count: int, unit: str) -> str:
    if unit != "bytes":
        return f"{count:,}"
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _live_bar(unit: str, *, is_open: bool) -> RichProgress:
    """Build a bar; if the total is unknown (`is_open`), it shows the elapsed time."""
    from rich import progress
    from rich.table import Column

    figures: list[progress.ProgressColumn] = [] if is_open else [progress.MofNCompleteColumn()]
    if unit == "bytes":
        figures = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
    figures += (
        [progress.TimeElapsedColumn()]
        if is_open
        else [progress.TimeRemainingColumn(), progress.TextColumn("left")]
    )
    console = rich_console(is_stderr=True)
    room = console.width - _FIGURES_WIDTH  # long names are cut, numbers never
    name = Column(overflow="ellipsis", no_wrap=True, max_width=max(room, 12))
    return progress.Progress(
        progress.TextColumn("{task.description}", table_column=name, markup=False),
        progress.BarColumn(bar_width=None, table_column=Column(ratio=1)),
        *figures,
        console=console,
        transient=True,
        expand=True,
        redirect_stdout=False,  # stdout has results, not messages
    )
