"""How far long work is: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import pytest

from jtrans.cli.console import TerminalProgress, close_bars

MB = 1_000_000


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """All that was drawn, without colours and cursor movements."""
        return (
            re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()).replace("\r", "\n").split("\n")
        )


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the time is; standard error is no terminal."""
    clock = Clock()
    monkeypatch.setattr("jtrans.cli.console.time.monotonic", clock)
    return clock


def draw(screen: Screen, task: str, steps: list[int], total: int | None, unit: str = "") -> None:
    with contextlib.redirect_stderr(screen):
        progress = TerminalProgress()
        for done in steps:
            progress.advance(task, done, total, unit=unit)
        progress.say("", "")  # ends the bar, which draws it a last time


def test_bars_that_an_error_left_behind_are_ended_and_keep_no_results(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = io.StringIO()
    monkeypatch.setattr("sys.stdout", results)
    monkeypatch.setattr("sys.stderr", screen)
    progress = TerminalProgress()
    progress.advance("Translating", 1, 9)
    print("{}")
    assert results.getvalue() == "{}\n" and "\x1b[?25l" in screen.getvalue()  # no cursor
    close_bars()
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")
    assert sys.stderr is screen


def test_a_download_shows_sizes_rate_and_time_left(screen: Screen) -> None:
    draw(screen, "Downloading a.tgz", [MB, 2 * MB, 5 * MB], 40 * MB, "bytes")
    assert any(
        re.search(r"Downloading a\.tgz .* 5\.0/40\.0 MB .*[kMG]?B/s \d:\d\d:\d\d left", row)
        for row in screen.rows()
    )


def test_a_long_name_is_cut_and_never_the_figures(screen: Screen) -> None:
    draw(screen, "Downloading training-parallel-europarl-v7.tgz", [0, 300 * MB], 1657 * MB, "bytes")
    row = next(row for row in screen.rows() if "300.0/1,657.0 MB" in row or "0.3/1.7 GB" in row)
    assert row.startswith("Downloading training-") and "…" in row and row.rstrip().endswith("left")


def test_things_are_counted_without_a_rate(screen: Screen) -> None:
    draw(screen, "Segmenting", [10, 20], 40)
    row = next(row for row in screen.rows() if "20/40" in row)
    assert "B/s" not in row and row.rstrip().endswith("left")


def test_work_without_a_known_end_shows_the_time_since_its_start(screen: Screen) -> None:
    draw(screen, "Learning BPE", [0], None)
    row = next(row for row in screen.rows() if row.startswith("Learning BPE"))
    assert "?" not in row and "left" not in row and "0:00:0" in row


def test_without_a_terminal_a_line_tells_rate_and_time_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = TerminalProgress()
    # 100 MB were there already: the rate is of what came since
    for done in (100, 110, 125):
        progress.advance("Downloading a.tgz", done * MB, 400 * MB, unit="bytes")
        clock.now += 25
    assert capsys.readouterr().err.splitlines() == [
        "Downloading a.tgz 110.0 MB of 400.0 MB, 0.4 MB/s, 12:05 min left",
        "Downloading a.tgz 125.0 MB of 400.0 MB, 0.5 MB/s, 9:10 min left",
    ]


def test_without_a_terminal_lines_are_rare(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = TerminalProgress()
    for done in range(0, 60_000, 1000):
        progress.advance("Segmenting", done, 60_000)
        clock.now += 1
    assert capsys.readouterr().err.splitlines() == [
        "Segmenting 21,000 of 60,000, 0:39 min left",
        "Segmenting 42,000 of 60,000, 0:18 min left",
    ]


def test_without_a_terminal_the_time_left_is_that_of_the_second_task_of_a_name(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = TerminalProgress()
    for done in (50, 500, 1000, 0, 20, 500):
        progress.advance("Scoring", done, 1000)
        clock.now += 25
    assert capsys.readouterr().err.splitlines() == [
        "Scoring 500 of 1,000, 0:27 min left",
        "Scoring 1,000 of 1,000, 0:00 min left",
        "Scoring 20 of 1,000, 20:25 min left",
        "Scoring 500 of 1,000, 0:50 min left",
    ]
