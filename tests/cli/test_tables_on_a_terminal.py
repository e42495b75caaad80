"""Tables on a terminal: numbers to the right, translations to the left and as wide as it is."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter

import pytest

from jtrans.analysis.figures.results import Table
from jtrans.analysis.output.tables import numeric_columns
from jtrans.cli import console
from jtrans.cli.analyze.show import print_item
from jtrans.cli.tables import print_table

SENTENCES = Table(
    "compare-sentences",
    "Sentences",
    ["line", "source", "reference", "one", "two", "chrF difference"],
    [
        [1, "12", "3 dogs run in the park and the children laugh", "3", "- 3", 0.5],
        [2, "13", "4 cats sleep", "4", "-4", 0.25],
    ],
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_translations_that_look_like_numbers_are_text() -> None:
    assert numeric_columns(SENTENCES) == [True, False, False, False, False, True]


def test_translations_have_lines_of_their_own_on_a_terminal(terminal: Terminal) -> None:
    with contextlib.redirect_stdout(terminal):
        print_item(SENTENCES, is_first=True)
    lines = [
        line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    ]
    assert "reference  3 dogs run in the park and the children laugh" in lines
    assert "two        - 3" in lines
    assert "line 1     chrF difference 0.5" in lines


def test_translations_are_left_aligned_in_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_item(SENTENCES, is_first=True)
    header, first, second = capsys.readouterr().out.splitlines()[1:]
    assert header.index("two") == first.index("- 3") == second.index("-4")


def test_chinese_letters_take_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", "b"], [["我们", "x"], ["e\u0301", "y"]])
    assert capsys.readouterr().out.splitlines() == ["a     b", "我们  x", "e\u0301     y"]


@pytest.mark.parametrize("columns", [30, 40, 52, 57, 64, 70, 80, 160])
def test_nothing_of_a_table_is_lost_on_a_narrow_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [
        ["grammar-de-en", "1234567890", "built in", "CC BY-NC-ND 3.0", "Sentences of a grammar"],
        ["multi30k-de-en", "21,200", "", "non-commercial", "Captions, encoder-decoder, 我们"],
    ]
    heading = ["corpus", "pairs", "here", "licence", "text"]
    with contextlib.redirect_stdout(terminal):
        print_table(heading, rows, right=["pairs"])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert Counter("".join(shown.split())) == Counter(
        "".join("".join(row) for row in [heading, *rows]).replace(" ", "")
    )
    assert {"1234567890", "21,200"} <= set(shown.split())


def test_an_empty_no_color_switches_nothing_off(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert not console.is_plain(terminal)
    monkeypatch.setenv("NO_COLOR", "0")
    assert console.is_plain(terminal)


def test_brackets_in_a_name_are_no_markup(terminal: Terminal) -> None:
    with contextlib.redirect_stdout(terminal):
        print_table(["[red]name", "n"], [["a", "1"]])
    assert "[red]name" in terminal.getvalue()
