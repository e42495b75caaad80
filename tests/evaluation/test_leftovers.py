"""Subword marks and escapes in files of translations, and text that may look like them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from jtrans.errors import CorpusError
from jtrans.evaluation.leftovers import (
    case_warning,
    check_hypothesis,
    check_plain_text,
    empty_references_warning,
    empty_warning,
    escaped_warning,
    normal_form_warning,
    reference_warnings,
    tokenised_warning,
)
from jtrans.text.leftovers import find_leftover

REFERENCE = ["We're here & there.", "Send it to a@@b.org.", "Use &amp; in HTML."] * 50


@pytest.mark.parametrize(
    ("line", "kind", "example"),
    [
        ("ge@@ h@@ en wir", "BPE pieces", "ge@@"),
        ("wir ge@@ h@@", "BPE pieces", "ge@@"),
        ("▁we ▁go ▁ho me", "SentencePiece pieces", "▁go"),
        ("▁ we g o ▁ ho me", "SentencePiece pieces", "▁ ho"),
        ("we w ##ent ho ##me", "WordPiece pieces", "##ent"),
        ("we &apos;re &#91; here &#93;", "escaped characters", "&#91;"),
        ("&amp;quot; no &amp;quot; &amp;apos;", "escaped characters", "&amp;apos;"),
    ],
)
def test_pieces_and_escapes_are_found_with_their_line(line: str, kind: str, example: str) -> None:
    leftover = find_leftover([*REFERENCE, line], [[*REFERENCE, "plain"]])
    assert leftover is not None
    assert (leftover.kind, leftover.first, leftover.lines) == (kind, 151, 1)
    assert (leftover.example, leftover.is_certain) == (example, True)


@pytest.mark.skipif(shutil.which("sed") is None, reason="needs sed")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ge@@ h@@ en wir we@@", "gehen wir we"),
        ("▁we ▁go ▁ho me", "we go home"),
        ("we w ##ent ho ##me", "we went home"),
    ],
)
def test_pieces_are_joined_as_the_hint_says(line: str, words: str) -> None:
    with pytest.raises(CorpusError) as error:
        check_plain_text("a.en", [line] * 3)
    assert error.value.hint is not None
    command = re.search(r"sed .*'", error.value.hint)
    assert command is not None
    done = subprocess.run(command[0], shell=True, input=line, text=True, capture_output=True)
    assert done.stdout == words


def test_text_that_references_have_too_is_no_leftover() -> None:
    assert find_leftover(REFERENCE, [REFERENCE]) is None
    assert find_leftover(["mail a@@b.org or @@ or ▁▂▃"] * 9, [["none of it"] * 9]) is None


def test_a_mark_in_one_line_of_many_may_be_an_accident() -> None:
    leftover = find_leftover(["plain"] * 200 + ["foo@@ bar"], [["plain"] * 201])
    assert leftover is not None
    assert not leftover.is_certain
    few = find_leftover(["plain"] * 20 + ["foo@@ bar"], [["plain"] * 21])
    assert few is not None
    assert few.is_certain


def test_translations_of_html_may_have_entities_in_other_lines() -> None:
    assert find_leftover([*REFERENCE[1:], REFERENCE[0]], [REFERENCE]) is None
    many = find_leftover(["Use &amp; here."] * 150, [REFERENCE])
    assert many is not None
    assert many.lines == 100


def test_references_may_have_html_but_no_escapes_of_moses() -> None:
    assert find_leftover(REFERENCE) is None
    escaped = find_leftover(["it &apos;s"] * 9)
    assert escaped is not None
    assert escaped.is_certain


def test_a_hundred_lines_with_a_separate_period_are_told() -> None:
    assert tokenised_warning("x", ["it is so ."] * 99) is None
    assert "100 lines end in a tokenized period" in (
        tokenised_warning("x", ["it is so ."] * 100) or ""
    )


def test_a_hundred_references_with_escapes_are_told() -> None:
    lines = ["it &apos;s so ."] * 99
    assert escaped_warning([lines, ["it 's so ."] * 99]) is None
    assert "100 lines of the references" in (escaped_warning([lines, ["&#91;it"]]) or "")
    assert escaped_warning([["&lt;b&gt; is HTML"] * 150]) is None


CASED, LOWER = ["Ein Hund .", "Der Vogel fliegt .", "er schläft ."], ["ein hund ."] * 3


@pytest.mark.parametrize(
    ("lines", "references", "warning"),
    [
        (LOWER, [CASED], "a.de is in lower case, and the references are not: --lowercase "),
        (CASED, [LOWER], "the references are in lower case, and a.de is not: --lowercase "),
        (LOWER, [LOWER, CASED], "a.de is in lower case, and the references are not"),
        (CASED, [CASED], None),
        (LOWER, [LOWER], None),
        (["一只 狗"] * 3, [["一只 鸟"] * 3], None),
        (["der hund", *LOWER[1:]], [["der hund", "die USA", "ja ."]], None),  # few capitals
        (["ein Hund .", *LOWER], [[*CASED, "Ja ."]], None),  # no text in lower case
    ],
)
def test_only_one_side_in_lower_case_is_told(
    lines: list[str], references: list[list[str]], warning: str | None
) -> None:
    text = case_warning("a.de", lines, references)
    assert text is None if warning is None else (text or "").startswith(warning)


def test_a_capital_letter_in_a_hundred_lines_may_be_an_accident() -> None:
    references = [["Ein Hund ."] * 200]
    assert case_warning("a.de", ["Ein hund .", *["ein hund ."] * 199], references) is not None
    assert case_warning("a.de", ["Ein hund ."] * 3 + ["ein hund ."] * 197, references) is None


@pytest.mark.parametrize(
    ("empty", "warning"),
    [(1, "1 of 4 lines of a.de is empty"), (4, "3 of 4 lines of a.de are empty")],
)
def test_empty_translations_are_counted_and_not_taken_for_lower_case(
    empty: int, warning: str
) -> None:
    references = ["Ein Hund .", "Zwei .", "", "Drei ."]
    lines = [""] * empty + references[empty:]
    told = check_hypothesis("a.de", lines, [references], lowercase=False, as_is=False)
    assert told == [warning]


def test_one_empty_reference_of_two_is_no_missing_sentence() -> None:
    references = [["", "a"], ["b", ""]]
    assert empty_references_warning(references) is None
    assert empty_warning("a.de", ["", "c"], references) == "1 of 2 lines of a.de is empty"
    told = empty_references_warning([["", "a"], ["", "b"]])
    assert told is not None and told.startswith("1 sentence of 2 has no reference: its lines are")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["", "b", "c"], "1 sentence of 3 has no reference: its line is empty, "),
        (["", "b", ""], "2 sentences of 3 have no reference: their lines are empty, "),
    ],
)
def test_sentences_without_a_reference_are_counted(lines: list[str], told: str) -> None:
    warning = empty_references_warning([lines])
    assert warning is not None and warning.startswith(told)


def test_letters_that_are_composed_on_one_side_only_are_warned_of() -> None:
    composed, apart = "\u00fcber", "u\u0308ber"  # look alike
    lines = {"a.de": [composed, "x"], "b.de": [apart, composed], "c.de": [apart, "x"]}
    told = normal_form_warning(lines, [[apart, apart]])
    assert told is not None and "in 1 line of a.de and b.de and the references" in told
    assert normal_form_warning({"a.de": [composed, "x"]}, [[composed, "y"]]) is None
    assert normal_form_warning({"b.de": [apart]}, [[apart]]) is None
    assert normal_form_warning({"b.de": ["plain"]}, [[apart]]) is None


def test_references_of_a_corpus_that_was_prepared_from_pieces_are_warned_of() -> None:
    lines = ["a do@@ g", "a ca@@ t", "a bi@@ rd", "a cow"]
    told = reference_warnings([lines])
    assert told == [
        "3 lines of the references have BPE pieces, such as do@@: scores count pieces as words"
    ]
    assert reference_warnings([["a dog", "3 @@ a"]]) == []
