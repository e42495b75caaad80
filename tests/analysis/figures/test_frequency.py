"""F-measure of words by training frequency: compare-mt's definition, worked out by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from jtrans.analysis.figures.bins import Bins
from jtrans.analysis.figures.frequency import f_measure, matches_by_bin, training_words
from jtrans.data.prepared import PreparedCorpus

COUNTS = {"the": 100, "a": 50, "dog": 5, "cat": 4, "sees": 10, "sleeps": 1, "bird": 1}
REFERENCES = [
    "the dog sees a cat",
    "a cat sleeps",
    "the the dog",
    "bird",
    "the zebra sees the dog",
    "",
]
HYPOTHESES = [
    "the dog sees the cat",  # the 1, dog 1, sees 1, cat 1; a second "the" is not in the reference
    "a dog sleeps",  # a 1, sleeps 1; dog in the hypothesis only
    "the dog dog",  # the 1 (reference has two), dog 1 (hypothesis has two)
    "",
    "the zebra sees the bird",  # the 2, zebra 1, sees 1; bird in the hypothesis only
    "a bird",  # nothing in the reference
]
# bins: 0 | 1-4 | 5-9 | 10+       zebra | cat sleeps bird | dog | the a sees
MATCHED = [1, 2, 2, 1 + 1 + 1 + 1 + 2 + 1]
GIVEN = [1, 1 + 1 + 1 + 1, 1 + 1 + 2, 3 + 1 + 1 + 3 + 1]
WANTED = [1, 1 + 2 + 1, 1 + 1 + 1, 3 + 1 + 2 + 3]


def _found(hypotheses: list[str]) -> np.ndarray:
    return matches_by_bin(
        [line.split() for line in hypotheses],
        [line.split() for line in REFERENCES],
        COUNTS,
        Bins.between((1, 5, 10)),
    )


def test_matches_are_those_counted_by_hand() -> None:
    assert _found(HYPOTHESES).sum(axis=0).T.tolist() == [MATCHED, GIVEN, WANTED]


def test_the_f_measure_is_that_of_precision_and_recall() -> None:
    values = f_measure(_found(HYPOTHESES).sum(axis=0))
    for place, value in enumerate(values):
        precision = MATCHED[place] / GIVEN[place]
        recall = MATCHED[place] / WANTED[place]
        assert value == pytest.approx(2 * precision * recall / (precision + recall))


def test_words_on_one_side_only_give_zero_and_none_at_all_no_data() -> None:
    values = f_measure(_found([""] * 6).sum(axis=0))
    assert values.tolist() == [0, 0, 0, 0]
    empty = matches_by_bin([["the"]], [["the"]], COUNTS, Bins.between((1, 1000)))
    assert np.isnan(f_measure(empty.sum(axis=0))).tolist() == [True, False, True]


def test_the_reference_itself_gives_one() -> None:
    assert f_measure(_found(REFERENCES).sum(axis=0)).tolist() == [1, 1, 1, 1]


def test_training_words_are_those_of_the_text_with_pieces_put_together(
    corpus: PreparedCorpus,
) -> None:
    side = corpus.pipeline.target
    store = corpus.pairs("train").target
    expected = Counter(word for i in range(len(store)) for word in side.words(store[i]))
    assert set(expected) == {"Dog", "Cat", "Bird", "Fish", "Mouse"}
    assert training_words(corpus) == expected
