"""Tables for LaTeX: a small reader of LaTeX gets the texts back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.analysis.output.latex import escape, latex_table

COMMANDS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\symbol{34}": '"',
    **{f"\\{character}": character for character in "&%$#_{}"},
    "$-$": "-",
    "{}": "",  # between characters that would be joined
}
ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
JOINED = ("--", "''", "``", ",,", "?`", "!`")  # printed as one character


def read(text: str) -> str:
    """Return what LaTeX would print, without joining characters."""
    tokens = "|".join(map(re.escape, sorted(COMMANDS, key=len, reverse=True)))
    return re.sub(tokens, lambda found: COMMANDS[found[0]], text)


@given(ASCII)
def test_every_ascii_text_is_printed_as_it_is(text: str) -> None:
    assert read(escape(text)) == text
    assert not any(pair in escape(text) for pair in JOINED)


def test_signs_of_our_tables_are_commands_that_every_engine_knows() -> None:
    assert escape("81.2 ± 0.3 ↓") == r"81.2 $\pm$ 0.3 $\downarrow$"
    assert escape("10–19, p ≤ 1 × 2 → …") == r"10--19, p $\leq$ 1 $\times$ 2 $\to$ \dots{}"
    assert escape("系统 été") == "系统 été"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-9.4", "$-$9.4"),
        ("-20 to -11", "$-$20 to $-$11"),
        ("<-20", r"\textless{}$-$20"),
        ("0.5 [-0.1, 1.1]", "0.5 [$-$0.1, 1.1]"),
        ("<= 0.001", r"$\leq$ 0.001"),
        ("p <= 0.001", r"p $\leq$ 0.001"),
        ("run-2", "run-2"),
        ("2026-11-30", "2026-11-30"),
        ("-v", "-v"),
        ("a <= b", r"a \textless{}= b"),
    ],
)
def test_numbers_have_minus_and_at_most_signs(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_a_table_has_the_rules_of_booktabs_and_notes_as_comments() -> None:
    rows = [["base_1", "1.0"], ["  seed 2", "2.0"]]
    text = latex_table(["system", "BLEU"], rows, right=["BLEU"], notes=["100 %\nsure"])
    assert text.splitlines()[1:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"system & BLEU \\",
        r"\midrule",
        r"base\_1 & 1.0 \\",
        r"\quad seed 2 & 2.0 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% 100 % sure",
    ]


def test_a_row_is_not_taken_for_an_argument_of_the_line_end_above() -> None:
    rows = [["*", "a"], ["[0, 1]", "b"]]
    lines = latex_table(["x", "y"], rows, right=[], notes=[]).splitlines()
    assert {r"{}* & a \\", r"{}[0, 1] & b \\"} <= set(lines)
