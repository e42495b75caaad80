"""Cleaning: which pairs stay, and what each dropped pair is counted as."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plugins.cleaning import clean

from jtrans.preparation.clean import REASONS, Rules, shape_reason


def words(count: int) -> str:
    return " ".join(["w"] * count)


def reasons_of(source: str, target: str, **rules: float) -> list[str]:
    cleaning = clean([source], [target], rules=Rules(**rules))  # type: ignore[arg-type]
    return [reason for reason, count in cleaning.dropped.items() if count]


@pytest.mark.parametrize(
    ("source", "target", "reasons"),
    [
        ("ein Haus", "a house", []),
        ("", "a house", ["empty"]),
        ("ein Haus", "", ["empty"]),
        ("ja", "yes", []),
        (words(175), words(175), []),
        (words(176), words(170), ["too long"]),
        (words(170), words(176), ["too long"]),
        (words(3), words(2), []),
        (words(2), words(3), []),
        (words(6), words(2), []),
        (words(7), words(2), ["ratio"]),
        (words(2), words(7), ["ratio"]),
        (words(200), words(2), ["too long"]),
        ("w" * 10_000, "w", []),
        ("w", "w" * 10_001, ["too long"]),
    ],
)
def test_a_pair_is_dropped_for_the_first_reason_that_applies(
    source: Any, target: Any, reasons: Any
) -> None:
    assert reasons_of(source, target) == reasons


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("OK , 100 % .", "OK , 100 % .", "identical"),
        ("( c ) 2009", "(c) 2009", "identical"),
        ("R&amp;D don &apos;t", "R&D don 't", "identical"),
        ("W i n d o w s ▁ 1 0", "Windows 10", "identical"),
        ("windows 10", "Windows 10", None),
        ("Windows 10", "Windows 10 .", None),
    ],
)
def test_the_same_text_is_identical_however_each_side_is_segmented(
    source: str, target: str, reason: str | None
) -> None:
    assert shape_reason(source, target, Rules(max_ratio=9, drop_identical=True)) == reason
    assert shape_reason(source, target, Rules(max_ratio=9)) is None


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("дом у моря", "a house by the sea", None),
        ("дом у моря", "дом у моря", "wrong script"),
        ("a house by the sea", "a house by the sea", "wrong script"),
    ],
)
def test_each_side_has_letters_of_its_own_script(
    source: str, target: str, reason: str | None
) -> None:
    assert shape_reason(source, target, Rules(drop_wrong_script=True), ("ru", "en")) == reason
    assert shape_reason(source, target, Rules(), ("ru", "en")) is None


def test_the_longest_side_is_counted_in_words_where_characters_are_segmented() -> None:
    rules = Rules(max_length=10)
    assert shape_reason(words(30), words(10), rules, units_per_word=(3, 1)) is None
    assert shape_reason(words(31), words(10), rules, units_per_word=(3, 1)) == "too long"
    assert shape_reason(words(30), words(11), rules, units_per_word=(3, 1)) == "too long"


@given(st.integers(10, 40), st.integers(1, 10))
@example(tenths=15, shorter=2)  # of IWSLT14
def test_a_pair_exactly_at_the_ratio_stays(tenths: Any, shorter: Any) -> None:
    longer, shorter = tenths * shorter, 10 * shorter
    limits = {"max_ratio": tenths / 10, "max_length": 1000}
    assert reasons_of(words(longer), words(shorter), **limits) == []
    assert reasons_of(words(shorter), words(longer + 1), **limits) == ["ratio"]


def test_a_repeated_pair_is_kept_once_but_a_repeated_source_stays() -> None:
    source, target = ["ja", "ja", "ja"], ["yes", "yeah", "yes"]
    assert clean(source, target, rules=Rules()).kept == [0, 1]
    assert clean(source, target, rules=Rules(deduplicate=False)).kept == [0, 1, 2]


def test_a_pair_of_valid_or_test_is_dropped_but_not_its_source_with_another_target() -> None:
    source, target, held_out = ["ja", "ja"], ["yes", "yeah"], [("ja", "yes")]
    cleaning = clean(source, target, rules=Rules(), held_out=held_out)
    assert cleaning.kept == [1]
    assert cleaning.dropped["in valid/test"] == 1
    kept = clean(source, target, rules=Rules(drop_leaked=False), held_out=held_out).kept
    assert kept == [0, 1]


def test_a_pair_of_valid_or_test_with_another_fault_is_counted_once() -> None:
    source, target = ["ja", "ja", ""], ["yes", "yes", "yes"]
    cleaning = clean(source, target, rules=Rules(), held_out=[("ja", "yes"), ("", "yes")])
    dropped = {reason: count for reason, count in cleaning.dropped.items() if count}
    assert dropped == {"empty": 1, "duplicate": 1, "in valid/test": 1}


def test_one_side_of_a_pair_may_be_enough_to_drop_it() -> None:
    source, target = ["Ja .", "nein", "nie"], ["yeah", "Yes!", "never"]
    for unit, kept in (("source", [1, 2]), ("target", [0, 2]), ("pair", [0, 1, 2])):
        rules = Rules(drop_leaked=unit)  # type: ignore[arg-type]
        assert clean(source, target, rules=rules, held_out=[("ja", "yes")]).kept == kept


LINE = st.sampled_from(["", "a", "a b", "a b c", "b c d", words(5)])
PAIRS = st.lists(st.tuples(LINE, LINE), max_size=40)


@given(PAIRS, PAIRS)
def test_kept_and_dropped_add_up_and_cleaning_again_drops_nothing(
    pairs: Any, held_out: Any
) -> None:
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    rules = Rules(max_length=4)
    cleaning = clean(source, target, rules=rules, held_out=held_out)
    assert len(cleaning.kept) + sum(cleaning.dropped.values()) == len(pairs)
    assert tuple(cleaning.dropped) == REASONS
    assert cleaning.kept == sorted(set(cleaning.kept))
    kept = [pairs[i] for i in cleaning.kept]
    again = clean(*([p[i] for p in kept] for i in (0, 1)), rules=rules, held_out=held_out)
    assert again.kept == list(range(len(kept)))
    assert not set(kept) & set(held_out)
