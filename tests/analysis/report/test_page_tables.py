"""Tables of the page: narrow, with the names of systems isolated and shortened."""

from __future__ import annotations

from markupsafe import Markup

from jtrans.analysis.figures.results import Figure, Series, Table
from jtrans.analysis.report.page_tables import NameMarker, page_table

LONG = "experiment-2026-11-"


def test_what_every_row_says_stands_above_the_table() -> None:
    rows: list[list[str | float | int | None]] = [["A", "B", 5, 0.1], ["A", "C", 6, 0.2]]
    table = page_table(Table("t", "T", ["baseline", "system", "n", "p"], [*rows]))
    assert table.facts == [("baseline", "A")]
    assert table.headings == [("system", "word"), ("n", "number"), ("p", "number")]


def test_a_first_column_that_repeats_becomes_headings_of_groups() -> None:
    rows: list[list[str | float | int | None]] = [["B", "all", 1], ["B", "0–9", 2], ["C", "all", 3]]
    table = page_table(Table("t", "T", ["system", "words", "n"], rows))
    assert [heading for heading, _ in table.groups] == ["system: B", "system: C"]
    assert [len(rows) for _, rows in table.groups] == [2, 1]
    assert table.headings == [("words", "word"), ("n", "number")]


def test_a_table_with_one_row_keeps_its_columns() -> None:
    table = page_table(Table("t", "T", ["system", "layer"], [["A", "last"]]))
    assert table.facts == []
    assert table.groups == [("", [[("A", []), ("last", [])]])]


def test_a_table_without_rows_is_a_table() -> None:
    assert page_table(Table("t", "T", ["system", "n"], [])).groups == [("", [])]


def test_intervals_stand_apart_from_their_value() -> None:
    series = [Series("A", [0.5, None], [0.4, None], [0.6, None])]
    table = page_table(Figure("f", "t", "q", "x", "y", ["0–9", "10+"], [3, 0], series))
    [(_, rows)] = table.groups
    assert rows[0] == [("0–9", []), ("3", []), ("0.500", ["[0.400, 0.600]"])]
    assert rows[1][-1] == ("–", [])


def test_the_spread_of_seeds_stands_apart_from_its_value_and_says_what_it_is() -> None:
    series = [Series("A", [0.5, 0.7], [0.4, None], [0.6, None], spread=[0.1, 0.2])]
    [(_, rows)] = page_table(Figure("f", "t", "q", "x", "y", ["a", "b"], [3, 1], series)).groups
    assert rows[0][-1] == ("0.500", ["[0.400, 0.600]", "seeds ±0.100"])
    assert rows[1][-1] == ("0.700", ["seeds ±0.200"])


def test_a_word_of_ten_thousand_letters_is_cut() -> None:
    table = page_table(Table("t", "T", ["n-gram", "matches"], [["x" * 10_000, 1]]))
    assert len(table.groups[0][1][0][0][0]) <= 80


def test_names_of_systems_are_isolated_and_all_else_escaped() -> None:
    named = NameMarker(["عربي", "a<b", "a<b (2 seeds)"])
    assert named("a<b (2 seeds) & عربي") == Markup(
        "<bdi>a&lt;b (2 seeds)</bdi> &amp; <bdi>عربي</bdi>"
    )
    assert named("banana") == Markup("banana")


def test_headings_have_short_names() -> None:
    named = NameMarker([f"{LONG}large-vocabulary", f"{LONG}small-vocabulary"])
    assert named.short(f"matches {LONG}large-vocabulary") == (
        "matches <bdi>…2026-11-large-vocabulary</bdi>"
    )
    assert named.are_cut
    assert not NameMarker(["a", "b"]).are_cut
