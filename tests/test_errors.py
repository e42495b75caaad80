"""The texts of errors: names that are offered, counts, first lines of other errors."""

from __future__ import annotations

import pytest

from jtrans.config import recipe_names
from jtrans.errors import did_you_mean, first_line, how_many, name_hint


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("demo/tranformer", "demo/transformer"),
        ("demo/small", "demo/transformer-small"),
        ("transformer", "demo/transformer"),
        ("demo/transformer-large", "demo/transformer"),
        ("iwslt14-de-ne/reformer-base", "iwslt14-de-en/reformer-base"),
    ],
)
def test_a_mistyped_recipe_is_offered_as_it_is_spelled(name: str, near: str) -> None:
    assert did_you_mean(name, recipe_names()) == near


@pytest.mark.parametrize("name", ["demo/lstm", "demo/foo", "iwslt14-de-en/lstm", "nonsense"])
def test_a_recipe_that_shares_only_its_folder_is_not_offered(name: str) -> None:
    assert did_you_mean(name, recipe_names()) is None
    assert name_hint(name, recipe_names(), "jtrans recipes lists them") == (
        "jtrans recipes lists them"
    )


@pytest.mark.parametrize(
    ("name", "valid", "near"),
    [
        ("gpu", ["auto", "cpu", "cuda"], None),
        ("lr", ["l2", "learning_rate"], None),
        ("de", ["en", "df"], None),
        ("d", ["e"], None),
        ("", ["a"], None),
        ("---", ["a"], None),
        ("maxupdates", ["max_updates"], "max_updates"),
        ("multibleu", ["multi-bleu"], "multi-bleu"),
        ("heads_count", ["heads"], "heads"),
    ],
)
def test_short_and_compound_names_are_compared_by_their_words(
    name: str, valid: list[str], near: str | None
) -> None:
    assert did_you_mean(name, valid) == near


def test_without_a_near_name_all_are_listed() -> None:
    assert name_hint("gpu", ["auto", "cpu", "cuda"]) == "one of: auto, cpu, cuda"


@pytest.mark.parametrize(
    ("count", "plural", "expected"),
    [(0, "s", "0 lines"), (1, "s", "1 line"), (2_048, "s", "2,048 lines"), (2, "es", "2 linees")],
)
def test_one_thing_is_singular(count: int, plural: str, expected: str) -> None:
    assert how_many(count, "line", plural) == expected


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("\n  a fault\n  where\n"), "a fault"),
        (RuntimeError(), "RuntimeError"),
        (ValueError(" \n"), "ValueError"),
    ],
)
def test_the_first_line_of_an_error_is_never_missing(error: Exception, line: str) -> None:
    assert first_line(error) == line
