"""Truecasing: learned, applied to first words, and undone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.truecase import Truecaser, first_words

COUNTS = Counter({"das": 9, "Das": 1, "Haus": 7, "der": 5, "er": 2, "US": 3, "us": 1, "ß": 2})
TRUECASER = Truecaser.learn(COUNTS)


def test_first_words_are_written_as_within_sentences() -> None:
    assert TRUECASER.apply(["Das", "Haus", "."]) == ["das", "Haus", "."]
    assert TRUECASER.apply(["Haus", "und", "Das"]) == ["Haus", "und", "Das"]
    assert TRUECASER.apply(["US", "Das"]) == ["US", "Das"]
    assert TRUECASER.apply(["Unbekannt"]) == ["Unbekannt"]


def test_a_word_as_often_small_as_capital_becomes_small() -> None:
    learned = Truecaser.learn(Counter({"am": 2, "Am": 2, "see": 2, "See": 3}))
    assert learned.apply(["Am", ".", "See"]) == ["am", ".", "See"]


def test_sentences_within_a_line_begin_anew_quotes_left_aside() -> None:
    assert first_words(["„", "Das", "Haus", "!", "“", "Der", "..."]) == [1, 5]
    assert TRUECASER.apply(["Er", ".", '"', "Das"]) == ["er", ".", '"', "das"]


def test_a_tag_at_the_end_of_a_line_leaves_the_first_word_to_be_truecased() -> None:
    """As docs/synthetic-data.md says; at the beginning the tag is the first word."""
    for line in (["Das", "Haus", "."], ["Das", "Haus"], ["„", "Das", "Haus", ".", "“"]):
        assert TRUECASER.apply([*line, "TAG"]) == [*TRUECASER.apply(line), "TAG"]
    assert TRUECASER.apply(["TAG", "Das", "Haus"]) == ["TAG", "Das", "Haus"]


def test_capitals_are_restored() -> None:
    assert TRUECASER.restore(["das", "Haus", ".", "er"]) == ["Das", "Haus", ".", "Er"]
    assert TRUECASER.restore(["ß"]) == ["ß"]
    georgian = Truecaser.learn(Counter({"ეს": 3, "არის": 5}))  # whose capitals begin no sentence
    assert georgian.restore(["ეს", "არის"]) == ["ეს", "არის"]


WORDS = st.sampled_from(["Das", "das", "Haus", "US", "us", "Us", ".", "?", "er", "Er", "„", "ßa"])


@given(st.lists(WORDS, max_size=9))
def test_what_begins_with_a_capital_comes_back_exactly(words: list[str]) -> None:
    capital = TRUECASER.restore(words)
    assert TRUECASER.restore(TRUECASER.apply(capital)) == capital
    assert first_words(TRUECASER.apply(words)) == first_words(words)
