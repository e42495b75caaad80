"""BLEU from counts and the bootstrap, held against sacreBLEU's."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from jtrans.evaluation.bleu import COLUMNS, bleu_counts, bleu_of
from jtrans.evaluation.bootstrap import Bootstrap, p_value
from jtrans.evaluation.scores import sacrebleu_scores
from jtrans.evaluation.significance import paired_bootstrap

REFERENCES = [
    "the dog sleeps on the green sofa .",
    "a cat runs through the old house .",
    "two birds sing in the morning .",
    "my sister reads a very long book .",
    "Where is the station ?",
    "no",
]
BETTER = [*REFERENCES[:3], "my sister reads a long book .", "Where was the station ?", "no"]
WORSE = ["the dog sleeps", "a cat runs in a old house .", "birds sing .", "books", "", "yes"]


def _counts(lines: list[str]) -> np.ndarray:
    return bleu_counts(lines, [REFERENCES], target_language="en", lowercase=False)


@pytest.mark.parametrize("lines", [BETTER, WORSE])
def test_bleu_and_its_interval_are_those_of_sacrebleu(lines: list[str]) -> None:
    counts = _counts(lines)
    [expected] = sacrebleu_scores(lines, [REFERENCES], metrics=["bleu"], target_language="en")
    assert float(bleu_of(counts.sum(axis=0))) == pytest.approx(expected.value)
    drawn = bleu_of(Bootstrap(len(lines)).sums(counts))
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert (high - low) / 2 == pytest.approx(expected.interval, abs=0.05)


def test_bleu_of_any_sentences_is_sacrebleu_of_these_lines() -> None:
    counts = _counts(BETTER)
    for chosen in ([0, 3, 4], [0, 5], [2, 5]):
        lines, references = [BETTER[i] for i in chosen], [REFERENCES[i] for i in chosen]
        expected = BLEU(force=True).corpus_score(lines, [references]).score
        assert float(bleu_of(counts[chosen].sum(axis=0))) == pytest.approx(expected)


def test_nothing_summed_has_no_bleu() -> None:
    assert np.isnan(bleu_of(np.zeros(COLUMNS)))


def test_sentences_without_4_grams_on_either_side_have_no_bleu() -> None:
    short = [line for line in REFERENCES if len(line.split()) < 4]
    counts = bleu_counts(short, [short], target_language="en", lowercase=False)
    assert np.isnan(bleu_of(counts.sum(axis=0)))
    failed = bleu_counts([""], [[REFERENCES[0]]], target_language="en", lowercase=False)
    assert bleu_of(failed.sum(axis=0)) == 0


def test_p_is_that_of_the_paired_bootstrap_of_sacrebleu() -> None:
    [expected] = paired_bootstrap(
        [("a", BETTER), ("b", WORSE)], [REFERENCES], metrics=["bleu"], target_language="en"
    )
    bootstrap = Bootstrap(len(REFERENCES))
    better, worse = (_counts(lines) for lines in (BETTER, WORSE))
    drawn = bleu_of(bootstrap.sums(worse)) - bleu_of(bootstrap.sums(better))
    difference = float(bleu_of(worse.sum(axis=0)) - bleu_of(better.sum(axis=0)))
    assert difference == pytest.approx(expected.difference)
    assert p_value(drawn, difference) == pytest.approx(expected.p_value, abs=1e-3)
    assert p_value(drawn, 0.0) == 1.0


def test_drawn_sets_have_as_many_sentences_and_are_the_same_again() -> None:
    weights = Bootstrap(7).weights
    assert (weights.sum(axis=1) == 7).all()
    assert (weights == Bootstrap(7).weights).all()
    assert len(np.unique(weights, axis=0)) > 10
