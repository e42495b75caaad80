"""Minimum Bayes risk against its definition."""

from __future__ import annotations

import math

import pytest
from sacrebleu.metrics.chrf import CHRF

from jtrans.decoding.mbr import MinimumBayesRisk

TEXTS = ["the cat sat down", "the cat sat", "a dog ran away", "the cat sat down", "the cat sits"]


def test_samples_weigh_the_same() -> None:
    chrf = CHRF()
    expected = [sum(chrf.sentence_score(h, [r]).score for r in TEXTS) / len(TEXTS) for h in TEXTS]
    assert MinimumBayesRisk("chrf", "en").expected(TEXTS).tolist() == pytest.approx(expected)


def test_hypotheses_weigh_by_their_probability() -> None:
    chrf, log_probs = CHRF(), [-1.0, -2.0, -900.0, -3.0, -1.5]
    weights = [math.exp(value) for value in log_probs]
    expected = [
        sum(w * chrf.sentence_score(h, [r]).score for w, r in zip(weights, TEXTS, strict=True))
        / sum(weights)
        for h in TEXTS
    ]
    risk = MinimumBayesRisk("chrf", "en")
    assert risk.expected(TEXTS, log_probs).tolist() == pytest.approx(expected)


def test_probabilities_of_long_hypotheses_are_too_small_for_a_number() -> None:
    log_probs = [-1.0, -2.0, -9.0, -3.0, -1.5]
    risk = MinimumBayesRisk("chrf", "en")
    expected = risk.expected(TEXTS, log_probs).tolist()
    far = [value - 900.0 for value in log_probs]
    assert risk.expected(TEXTS, far).tolist() == pytest.approx(expected)


def test_the_odd_one_out_is_never_the_best() -> None:
    for utility in ("chrf", "bleu"):
        scores = MinimumBayesRisk(utility, "en").expected(TEXTS).tolist()
        assert min(scores) == scores[2]


def test_a_single_candidate_is_chosen() -> None:
    assert MinimumBayesRisk("bleu", "en").expected(["a b c d e"]).tolist() == pytest.approx([100.0])
