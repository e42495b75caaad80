"""The vocabulary: order, specials, filler, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.errors import CorpusError
from jtrans.text.vocabulary import EOS, PAD, SPARE, SPECIALS, UNK, Vocabulary

COUNTS = {"see": 2, "haus": 5, "am": 2, "x": 1}


def test_tokens_stand_by_falling_count_then_by_name() -> None:
    vocabulary = Vocabulary.build(COUNTS)
    assert vocabulary.tokens == ["<pad>", "</s>", "<unk>", "<s>", "haus", "am", "see", "x"]
    assert vocabulary.counts == [0, 0, 0, 0, 5, 2, 2, 1]


def test_specials_have_their_ids() -> None:
    vocabulary = Vocabulary.build({})
    assert [vocabulary.token(i) for i in (PAD, EOS, UNK, SPARE)] == list(SPECIALS)
    assert vocabulary.token(EOS) == "</s>"


def test_rare_tokens_are_left_out() -> None:
    vocabulary = Vocabulary.build(COUNTS, min_count=2)
    frequent, rare = vocabulary.ids(["am", "x"])
    assert frequent > SPARE
    assert rare == UNK


@given(st.integers(0, 40))
def test_filler_rounds_the_size_up(words: int) -> None:
    vocabulary = Vocabulary.build({str(i): 1 for i in range(words)})
    size = words + len(SPECIALS)
    assert len(vocabulary) == -(-size // 8) * 8
    assert vocabulary.tokens[size:] == [f"madeupword{i:04d}" for i in range(len(vocabulary) - size)]


def test_filler_avoids_a_real_token_of_its_name() -> None:
    vocabulary = Vocabulary.build({"madeupword0000": 3})
    assert vocabulary.tokens[4:] == [f"madeupword{i:04d}" for i in range(4)]
    assert vocabulary.counts[4:] == [3, 0, 0, 0]
    assert vocabulary.filler == [5, 6, 7]


def test_names_of_filler_in_a_text_are_unknown_words() -> None:
    text = ["haus", "madeupword0000", "madeupword0002"]
    assert Vocabulary.build({"haus": 1}).ids(text) == [4, UNK, UNK]
    real = Vocabulary.build({"haus": 2, "madeupword0000": 1})
    assert real.ids(text) == [4, 5, UNK]
    assert "madeupword0002" not in real.known


def test_names_of_specials_in_a_text_are_unknown_words() -> None:
    vocabulary = Vocabulary.build({"</s>": 9, "<pad>": 9, "haus": 1})
    assert vocabulary.ids(["haus", "</s>", "<pad>", "see"]) == [4, UNK, UNK, UNK]
    assert vocabulary.tokens.count("</s>") == 1


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 9)))
def test_ids_and_tokens_are_inverse(counts: dict[str, int]) -> None:
    vocabulary = Vocabulary.build(counts)
    pieces = [piece for piece in counts if piece not in SPECIALS]
    assert set(pieces) <= set(vocabulary.tokens)
    assert [vocabulary.token(i) for i in vocabulary.ids(pieces)] == pieces


def test_json_gives_the_same_vocabulary() -> None:
    vocabulary = Vocabulary.build(COUNTS)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"tokens": [*SPECIALS]},
        {"tokens": [*SPECIALS], "counts": [0, 0, 0]},
        {"tokens": [*SPECIALS], "counts": [0, 0, 0, "0"]},
        {"tokens": [*SPECIALS, 7], "counts": [0] * 5},
        {"tokens": ["haus", *SPECIALS], "counts": [0] * 5},
    ],
)
def test_damaged_json_is_refused(value: Any) -> None:
    with pytest.raises(CorpusError):
        Vocabulary.from_json(value)
