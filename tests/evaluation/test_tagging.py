"""Scores of tags: accuracy by word, F-measure of labels and of whole entities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.evaluation.tagging import Gold, entity_spans, label_counts, score_tags, span_counts

LABELS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("O B-PER I-PER O", {(1, 3, "PER")}),
        ("B-PER B-PER", {(0, 1, "PER"), (1, 2, "PER")}),
        ("O I-PER I-PER", {(1, 3, "PER")}),
        ("B-PER I-LOC", {(0, 1, "PER"), (1, 2, "LOC")}),
        ("", set()),
    ],
)
def test_entities_are_spans(labels: str, spans: set[tuple[int, int, str]]) -> None:
    assert entity_spans(labels.split()) == spans


@given(st.lists(LABELS, max_size=8))
def test_spans_cover_every_word_that_is_no_outsider(labels: list[str]) -> None:
    covered = [place for begin, end, _ in entity_spans(labels) for place in range(begin, end)]
    assert sorted(covered) == [i for i, label in enumerate(labels) if label != "O"]
    for begin, end, name in entity_spans(labels):
        assert {label[2:] for label in labels[begin:end]} == {name}
        assert "B" not in {label[0] for label in labels[begin + 1 : end]}


def test_accuracy_counts_words_with_a_gold_label() -> None:
    gold: list[Gold] = [["NOUN", "VERB", None], [None], []]
    score = score_tags("pos", gold, [["NOUN", "NOUN", "X"], ["X"], []])
    assert (score.words, score.accuracy, score.f1) == (2, 0.5, None)
    assert score_tags("pos", [[None]], [["X"]]).accuracy is None


def test_an_entity_counts_only_as_a_whole() -> None:
    gold: list[Gold] = [["B-PER", "I-PER", "O", "B-LOC"], [None, None]]
    predicted = [["B-PER", "O", "B-ORG", "B-LOC"], ["B-PER", "O"]]
    score = score_tags("ner", gold, predicted)
    assert (score.entities, score.precision, score.recall, score.f1) == (2, 1 / 3, 1 / 2, 2 / 5)
    assert score.accuracy == 0.5
    nothing = score_tags("ner", [["O"]], [["O"]])
    assert (nothing.entities, nothing.f1, nothing.accuracy) == (0, None, 1.0)


def test_counts_by_label_are_found_predicted_and_expected() -> None:
    counts = label_counts([["A", "B", None], ["B"]], [["A", "A", "B"], ["B"]], ["A", "B"])
    assert counts.tolist() == [[[1, 2, 1], [0, 0, 1]], [[0, 0, 0], [1, 1, 1]]]
    spans = span_counts([["B-PER"], [None]], [["B-LOC"], ["B-PER"]], ["LOC", "PER"])
    assert spans.tolist() == [[[0, 1, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
