"""Valid and test set aside from one piece: no sentence twice, the same for everybody."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.corpora.holdout import split_off
from jtrans.corpora.parallel import ParallelText

SIZES = {"valid": 20, "test": 30}


def corpus(count: int) -> list[tuple[str, str]]:
    return [(f"Das ist Satz {i}.", f"This is sentence {i}.") for i in range(count)]


def text_of(pairs: list[tuple[str, str]]) -> ParallelText:
    return ParallelText([source for source, _ in pairs], [target for _, target in pairs])


def sets(splits: dict[str, ParallelText]) -> dict[str, set[tuple[str, str]]]:
    return {name: set(zip(text.source, text.target, strict=True)) for name, text in splits.items()}


def test_the_splits_have_their_sizes_and_nothing_is_lost() -> None:
    splits = split_off(text_of(corpus(300)), SIZES)
    assert {name: len(text) for name, text in splits.items()} == {
        "train": 250, "valid": 20, "test": 30,
    }  # fmt: skip
    assert set.union(*sets(splits).values()) == set(corpus(300))


def test_at_most_half_of_a_small_corpus_is_held_out() -> None:
    splits = split_off(text_of(corpus(21)), SIZES)
    assert len(splits["train"]) == 11 and len(splits["valid"]) + len(splits["test"]) == 10


def test_order_and_repetitions_of_the_corpus_do_not_matter() -> None:
    pairs = corpus(300)
    shuffled = pairs + pairs[:50]
    random.Random(1).shuffle(shuffled)
    assert sets(split_off(text_of(pairs), SIZES)) == sets(split_off(text_of(shuffled), SIZES))


def test_a_newer_release_keeps_nearly_all_of_the_test_set() -> None:
    old = sets(split_off(text_of(corpus(1000)), SIZES))
    new = sets(split_off(text_of(corpus(1050)), SIZES))
    assert len((old["test"] | old["valid"]) & (new["test"] | new["valid"])) > 40


def test_of_several_translations_the_first_is_held_out() -> None:
    pairs = corpus(300)
    held_out = sets(split_off(text_of(pairs), SIZES))["test"]
    more = [(source, f"So this is it: {source}") for source, _ in pairs]
    assert sets(split_off(text_of(pairs + more), SIZES))["test"] <= set(pairs)
    assert len(held_out) == SIZES["test"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("ijklmnop")), max_size=60))
def test_no_sentence_of_either_language_stands_in_two_splits(letters: Any) -> None:
    pairs = [(f"Der {a.upper()}!", f"the {b} there") for a, b in letters]
    pairs += [(f"der {a}", f"The {b} there.") for a, b in letters[::2]]
    splits = sets(split_off(text_of(pairs), {"valid": 2, "test": 2}))
    for side in (0, 1):
        seen: list[set[str]] = [
            {pair[side].lower().strip("!.") for pair in split} for split in splits.values()
        ]
        assert all(not a & b for i, a in enumerate(seen) for b in seen[:i])


def test_short_sentences_are_not_held_out() -> None:
    pairs = [(f"Geh {i}", f"Go {i}") for i in range(200)] + corpus(200)
    splits = split_off(text_of(pairs), SIZES)
    assert all(len(line.split()) >= 3 for name in SIZES for line in splits[name].target)
