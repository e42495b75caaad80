"""Output to a terminal that is there, and to one that was closed."""

from __future__ import annotations

import os
import pty
import select
import sys

import pytest

from jtrans.cli.console import outlive_readers, rich_console
from jtrans.cli.tables import print_table


def test_lines_reach_the_terminal_and_are_dropped_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, inside = pty.openpty()
    with os.fdopen(inside, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        outlive_readers()
        assert sys.stdout.isatty() and sys.stdout.fileno() == inside
        print("Häuser")
        assert written_to(terminal) == "Häuser\r\n"
        os.close(terminal)
        print("for nobody", flush=True)


def test_messages_that_nobody_reads_any_more_end_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        outlive_readers()
        print("Häuser", file=sys.stderr)
        assert os.read(reader, 100) == "Häuser\n".encode()
        os.close(reader)
        print("for nobody", file=sys.stderr, flush=True)


def test_results_that_nobody_reads_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    outlive_readers()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        print("for nobody", flush=True)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_other_failures_of_a_terminal_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, inside = pty.openpty()
    with os.fdopen(os.dup(inside), "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        outlive_readers()
        os.close(stream.fileno())
        with pytest.raises(OSError, match="Bad file"):
            print("for nobody", file=sys.stderr, flush=True)
        os.dup2(inside, stream.fileno())  # both streams can be closed
        sys.stderr.close()  # writes what it still holds while there is a file
    os.close(inside)
    os.close(terminal)


def written_to(terminal: int) -> str:
    """Return the lines that have come to a terminal, which the system may hand on in parts."""
    data = b""
    while not data.endswith(b"\n") or select.select([terminal], [], [], 0.05)[0]:
        data += os.read(terminal, 1000)
    return data.decode()


def test_a_text_cannot_steer_the_terminal_but_styles_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, inside = pty.openpty()
    hostile, shown = "a\x1b[2J\r\b\x7f\x9b31m\tb", []
    with os.fdopen(inside, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        outlive_readers()
        print(hostile)
        shown.append(written_to(terminal))
        print_table(["name"], [[hostile]])
        shown.append(written_to(terminal))
        rich_console().print("red", style="red")
        shown.append(written_to(terminal))
    os.close(terminal)
    assert shown[0] == "a␛[2J␍␈␡\ufffd31m\tb\r\n"
    assert "a␛[2J␍␈␡\ufffd31m " in shown[1]
    assert "\x1b[31mred" in shown[2]
