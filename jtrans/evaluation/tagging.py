"""The quality of tagging: accuracy, and the F-measure of labels and of whole entities.

Words without a gold label (None) do not count for the accuracy; in a sentence with other labels
they are outside of any entity. Entities are compared as spans, as by conlleval: an entity is right
only if its first word, its last word and its type are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POS, NER = "pos", "ner"  # the kinds of labels
OUTSIDE = "O"  # the label of a word outside of entities
Gold = Sequence[str | None]  # the labels of a sentence's words, None for a word without a label
Span = tuple[int, int, str]  # first word, the word after the last, type


@dataclass(frozen=True)
class TaggingScore:
    """The quality of one kind of labels on a split; values without data are None."""

    kind: str  # "pos" or "ner"
    words: int  # number of words with a gold label
    accuracy: float | None  # share of these words whose label is predicted
    # of whole entities, only for "ner"
    entities: int | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


def score_tags(kind: str, gold: Sequence[Gold], predicted: Sequence[Sequence[str]]) -> TaggingScore:
    """Score the labels of all sentences, predicted for each word; `kind` is "pos" or "ner"."""
    pairs = [
        (truth, label)
        for labels, guesses in zip(gold, predicted, strict=True)
        for truth, label in zip(labels, guesses, strict=True)
        if truth is not None
    ]
    right = sum(truth == label for truth, label in pairs)
    accuracy = right / len(pairs) if pairs else None
    if kind != NER:
        return TaggingScore(kind, len(pairs), accuracy)
    types = entity_types(label for labels in (*gold, *predicted) for label in labels if label)
    matched, guessed, expected = span_counts(gold, predicted, types).sum(axis=(0, 1)).tolist()
    return TaggingScore(
        kind,
        len(pairs),
        accuracy,
        int(expected),
        matched / guessed if guessed else None,
        matched / expected if expected else None,
        2 * matched / (guessed + expected) if guessed + expected else None,
    )


def label_counts(
    gold: Sequence[Gold], predicted: Sequence[Sequence[str]], names: Sequence[str]
) -> NDArray[np.float64]:
    """Count words by sentence and label: predicted correctly, predicted, expected.

    Returns:
        [sentences, names, 3]; labels that are not in `names` are not counted.
    """
    place = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(gold), len(names), 3))
    for row, labels, guesses in zip(counts, gold, predicted, strict=True):
        for truth, label in zip(labels, guesses, strict=True):
            if truth is None:
                continue
            for column, name in ((0, truth if truth == label else ""), (1, label), (2, truth)):
                if name in place:
                    row[place[name], column] += 1
    return counts


def span_counts(
    gold: Sequence[Gold], predicted: Sequence[Sequence[str]], types: Sequence[str]
) -> NDArray[np.float64]:
    """Count entities by sentence and type: predicted correctly, predicted, expected.

    Returns:
        [sentences, types, 3]; 0 for sentences without any gold label.
    """
    place = {name: number for number, name in enumerate(types)}
    counts = np.zeros((len(gold), len(types), 3))
    for row, labels, guesses in zip(counts, gold, predicted, strict=True):
        if all(label is None for label in labels):
            continue
        expected = entity_spans([label or OUTSIDE for label in labels])
        spans = entity_spans(guesses)
        for column, group in enumerate((spans & expected, spans, expected)):
            for _, _, name in group:
                if name in place:
                    row[place[name], column] += 1
    return counts


def entity_spans(labels: Sequence[str]) -> set[Span]:
    """Return the entities in labels such as B-PER I-PER O; a stray I- label begins one."""
    spans: set[Span] = set()
    begin, name = 0, ""
    for place, label in enumerate([*labels, OUTSIDE]):
        prefix, _, entity_type = label.partition("-")
        if name and (prefix != "I" or entity_type != name):
            spans.add((begin, place, name))
            name = ""
        if entity_type and not name:
            begin, name = place, entity_type
    return spans


def entity_types(labels: Iterable[str]) -> list[str]:
    """Return the types of entities in labels, in alphabetical order."""
    return sorted({label.partition("-")[2] for label in labels} - {""})
