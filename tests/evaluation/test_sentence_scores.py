"""Scores of sentences in metrics that jtrans does not compute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from jtrans.errors import CorpusError
from jtrans.evaluation.bootstrap import Bootstrap, half_width
from jtrans.evaluation.sentence_scores import SentenceScores
from jtrans.evaluation.sentences import ScoredText

A, B = ["ein Hund", "zwei Hunde", "drei"], ["ein Hund", "zwei Katzen", "vier"]
SYSTEMS = {"a": A, "b": B}


def _comet(**systems: tuple[Sequence[str], Sequence[float]]) -> list[str]:
    """Return a file as comet-score writes it."""
    content = {
        name: [
            {"src": "x", "mt": text, "COMET": value}
            for text, value in zip(texts, values, strict=True)
        ]
        for name, (texts, values) in systems.items()
    }
    return json.dumps(content, indent=4).split("\n")


def _values(
    files: Mapping[str, Sequence[str]], systems: Mapping[str, Sequence[str]] = SYSTEMS
) -> list[float]:
    scores = SentenceScores.parse("COMET", files.items()).score(systems, Bootstrap(3))
    return [score.value for score in scores]


def test_scores_with_texts_belong_to_the_system_with_these_texts() -> None:
    files = {"c.json": _comet(z=(B, [0.1, 0.2, 0.6]), y=(A, [0.5, 0.5, 0.8]))}
    assert _values(files) == pytest.approx([0.6, 0.3])
    spaced = {"c.json": _comet(z=([f" {line} " for line in A], [0.5, 0.5, 0.8]))}
    assert _values(spaced, {"a": A}) == pytest.approx([0.6])


def test_numbers_belong_to_the_systems_in_order() -> None:
    assert _values({"1": ["1", "2", "6"], "2": ["-1", "1e1", " 0 "]}) == [3, 3]


def test_the_score_is_the_mean_and_so_on_every_drawn_test_set() -> None:
    bootstrap, values = Bootstrap(3), np.array([0.25, 0.5, 0.75])
    given = SentenceScores.parse("COMET", [("f", [str(value) for value in values])])
    [score] = given.score({"a": A}, bootstrap)
    assert (score.name, score.value) == ("COMET", 0.5)
    drawn = bootstrap.weights @ values / 3
    np.testing.assert_allclose(score.drawn, drawn, rtol=1e-6)
    assert score.interval == pytest.approx(half_width(drawn))
    assert score.signature == "COMET|mean of given sentence scores"


@pytest.mark.parametrize(("largest", "decimals"), [("-1.99", 4), ("2", 2), ("-87.5", 2)])
def test_small_scores_have_more_decimals(largest: str, decimals: int) -> None:
    given = SentenceScores.parse("X", [("f", ["0", "0", largest])])
    assert [score.decimals for score in given.score({"a": A}, Bootstrap(3))] == [decimals]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"f": []}, "f has no sentence scores: it is empty"),
        ({"f": ["1", "one", "2"]}, "f:2 has no sentence scores: 'one' is not a number"),
        ({"f": ["1", "", "2"]}, "f:2 .* '' is not a number"),
        ({"f": ["1", "nan", "2"]}, "f:2 .* 'nan' is not a number"),
        ({"f": ["{"]}, "f has no sentence scores: it is not a JSON object"),
        ({"f": ['{"a": ' + "[" * 100_000]}, "f has no sentence scores: it is not a JSON object"),
        ({"f": ["{}"]}, "f has no sentence scores: it names no translations"),
        ({"f": ['{"a": []}']}, "f: a has no sentence scores: it has no list"),
        ({"f": ['{"a": [{"mt": "x"}]}']}, "f: a .*: sentence 1 lacks 'mt' or 'COMET'"),
        ({"f": ['{"a": ["x"]}']}, "f: a .*: sentence 1 lacks"),
        ({"f": _comet(a=(A, [1, float("inf"), 2]))}, "f: a, sentence 2 .* 'inf' is not a number"),
    ],
)
def test_a_file_without_scores_is_refused(files: dict[str, list[str]], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        SentenceScores.parse("COMET", files.items())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"f": ["1", "2", "3"]}, "1 file of COMET scores for 2 systems"),
        ({"f": ["1"] * 3, "g": ["1"] * 3, "h": ["1"] * 3}, "3 files of COMET scores for 2 systems"),
        ({"f": ["1"] * 3, "g": ["1"] * 2}, "g has 2 scores, b has 3 translations"),
        ({"f": ["1"] * 3, "c": _comet(b=(B, [1, 1, 1]))}, "f has only numbers, other files have"),
        (
            {"c": _comet(a=(A, [1, 1, 1]), x=([*B[:2], "fünf"], [1, 1, 1]))},
            "no COMET scores of b: the most similar translations, in c: x, differ from line 3 on",
        ),
        ({"c": _comet(a=(A, [1, 1, 1]), b=(B[:2], [1, 1]))}, "in c: b, differ from line 3 on"),
    ],
)
def test_scores_of_other_translations_are_refused(
    files: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        _values(files)


@pytest.mark.parametrize(
    ("tokenizer", "lowercase", "equal"),
    [("none", False, [1]), ("none", True, [1, 2]), ("13a", True, [0, 1, 2])],
)
def test_sentences_are_scored_with_the_tokenizer_and_the_case_that_are_chosen(
    tokenizer: str, lowercase: bool, equal: list[int]
) -> None:
    lines = ["ein Hund, der bellt", "ein Hund , der bellt", "Ein Hund , der bellt"]
    references = [["ein Hund , der bellt"] * 3]
    text = ScoredText({"a": lines}, references, "de", lowercase, tokenizer, [])
    scores = [row["bleu"] for row in text.sentences(["bleu"])]
    assert [place for place, score in enumerate(scores) if score > 99.9] == equal
