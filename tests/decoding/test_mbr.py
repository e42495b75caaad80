"""Minimum Bayes risk against its definition."""

from __future__ import annotations

import math

import pytest
from sacrebleu.metrics.chrf import CHRF

from jtrans.decoding.mbr import expected_utilities

TEXTS = ["the cat sat down", "the cat sat", "a dog ran away", "the cat sat down", "the cat sits"]


def test_samples_weigh_the_same() -> None:
    chrf = CHRF()
    expected = [sum(chrf.sentence_score(h, [r]).score for r in TEXTS) / len(TEXTS) for h in TEXTS]
    scores = expected_utilities(TEXTS, None, "chrf", "en")
    assert scores.tolist() == pytest.approx(expected)


def test_hypotheses_weigh_by_their_probability() -> None:
    chrf, log_probs = CHRF(), [-1.0, -2.0, -900.0, -3.0, -1.5]
    weights = [math.exp(value) for value in log_probs]
    expected = [
        sum(w * chrf.sentence_score(h, [r]).score for w, r in zip(weights, TEXTS, strict=True))
        / sum(weights)
        for h in TEXTS
    ]
    scores = expected_utilities(TEXTS, log_probs, "chrf", "en")
    assert scores.tolist() == pytest.approx(expected)


def test_probabilities_of_long_hypotheses_are_too_small_for_a_number() -> None:
    log_probs = [-1.0, -2.0, -9.0, -3.0, -1.5]
    expected = expected_utilities(TEXTS, log_probs, "chrf", "en").tolist()
    far = [value - 900.0 for value in log_probs]
    assert expected_utilities(TEXTS, far, "chrf", "en").tolist() == pytest.approx(expected)


def test_the_odd_one_out_is_never_the_best() -> None:
    for utility in ("chrf", "bleu"):
        scores = expected_utilities(TEXTS, None, utility, "en").tolist()
        assert min(scores) == scores[2]


def test_a_single_candidate_is_chosen() -> None:
    scores = expected_utilities(["a b c d e"], None, "bleu", "en")
    assert scores.tolist() == pytest.approx([100.0])
