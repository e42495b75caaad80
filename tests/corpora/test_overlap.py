"""Sentences that count as the same in train and test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.corpora.overlap import HeldOut, bare_sentence, keys_by_unit, sentence_keys


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("Thank you!", "thank you ."),
        ("It's 5 o'clock.", "it &apos;s 5 o’clock"),
        ("ＡＢＣ、ｄ。", "abc d"),
        ("你 好 ，世界", "你好，世界！"),
        ("Straße", "STRASSE"),
        ("e\u0301te\u0301", "ÉTÉ"),
        ("πρωΐ", "ΠΡΩΪ́"),
        ("soft\u00adhy\u200bphen", "soft-hyphen"),
        ("`` Hello ''", '"Hello"'),
    ],
)
def test_case_punctuation_and_spaces_do_not_count(line: str, other: str) -> None:
    assert bare_sentence(line) == bare_sentence(other) != ""


@pytest.mark.parametrize(
    ("line", "other"),
    [("...", "?"), ("5 $", "5 €"), ("C++", "C"), ("กี", "กา"), ("résumé", "resume"), ("1", "2")],
)
def test_letters_marks_digits_and_symbols_count(line: str, other: str) -> None:
    assert bare_sentence(line) != bare_sentence(other)


@given(st.lists(st.text("abcäßжあ字1", min_size=1, max_size=4), min_size=1))
def test_only_the_letters_of_the_words_count(words: list[str]) -> None:
    assert bare_sentence(" ".join(words)) == bare_sentence("-".join(words).upper() + " !")
    assert bare_sentence(" ".join(words)) != bare_sentence(" ".join([*words, "x"]))


def test_lines_without_text_have_no_key_and_are_never_met() -> None:
    keys = sentence_keys(["", " \u200b ", "a"])
    assert (keys == 0).tolist() == [True, True, False]
    split = HeldOut.of(keys, [keys])
    split.meet(keys_by_unit(keys, keys))
    assert split.counts() == {"source": 1, "target": 1, "pair": 1}


def test_a_pair_is_met_only_with_one_of_its_own_references() -> None:
    source = sentence_keys(["a", "b"])
    references = [sentence_keys(["A", "B"]), sentence_keys(["Aa", "Bb"])]
    split = HeldOut.of(source, references)
    split.meet(keys_by_unit(source, np.flip(references[1])))
    assert split.counts() == {"source": 2, "target": 2, "pair": 0}
    split.meet(keys_by_unit(source[:1], references[1][:1]))
    assert split.counts() == {"source": 2, "target": 2, "pair": 1}
