"""BLEU from counts and the bootstrap, held against sacreBLEU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from jtrans.evaluation.bleu import COLUMNS, bleu_counts, bleu_of, drawn_bleu_of, sacrebleu_of
from jtrans.evaluation.bootstrap import Bootstrap, p_value
from jtrans.evaluation.scores import METRICS, make_metric, sacrebleu_scores

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


def sacrebleu_p_value(drawn: np.ndarray, difference: float) -> float:
    """Return the p of sacreBLEU's --paired-bs."""
    sizes = np.abs(drawn)
    return (int((sizes - sizes.mean() > abs(difference)).sum()) + 1) / (len(drawn) + 1)


def _counts(lines: list[str]) -> np.ndarray:
    return bleu_counts(lines, [REFERENCES], target_language="en", lowercase=False)


@pytest.mark.parametrize("lines", [BETTER, WORSE])
def test_bleu_and_its_interval_are_those_of_sacrebleu(lines: list[str]) -> None:
    counts = _counts(lines)
    [[expected]] = sacrebleu_scores([lines], [REFERENCES], metrics=["bleu"], target_language="en")
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
    for reference in (REFERENCES[0], "no dog is here"):
        failed = bleu_counts([""], [[reference]], target_language="en", lowercase=False)
        assert bleu_of(failed.sum(axis=0)) == 0
    assert drawn_bleu_of(counts.sum(axis=0)) == 0
    assert np.isnan(drawn_bleu_of(np.zeros(COLUMNS)))


def test_drawn_test_sets_without_4_grams_score_as_in_sacrebleu() -> None:
    lines, references = ["no", "so ?", "the dog sleeps well ."], ["no", "so", "the dog sleeps ."]
    counts = bleu_counts(lines, [references], target_language="en", lowercase=False)
    [[expected]] = sacrebleu_scores([lines], [references], metrics=["bleu"], target_language="en")
    drawn = sacrebleu_of(Bootstrap(len(lines)).sums(counts))
    assert (drawn == expected.drawn).all()
    assert (drawn == 0).any() and sacrebleu_of(np.zeros(COLUMNS)) == 0


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, BETTER[::-1]]])
def test_drawn_scores_are_those_of_the_paired_bootstrap_of_sacrebleu(
    name: str, references: list[list[str]]
) -> None:
    metric = make_metric(name, references, target_language="en", lowercase=False)
    systems: list[tuple[str, Sequence[str]]] = [("a", BETTER), ("b", WORSE)]
    _, columns = PairedTest(systems, {name: metric}, None, test_type="bs", n_samples=1000)()
    expected: list[Any] = list([*columns.values()][1])
    better, worse = (
        sacrebleu_scores([lines], references, metrics=[name], target_language="en")[0][0]
        for _, lines in systems
    )
    assert (better.value, worse.value) == pytest.approx([score.score for score in expected])
    assert (better.interval, worse.interval) == pytest.approx(
        [score.ci for score in expected], abs=1e-3
    )
    p = sacrebleu_p_value(worse.drawn - better.drawn, worse.value - better.value)
    assert p == pytest.approx(expected[1].p_value, abs=2e-3)


def test_a_test_set_without_a_match_in_some_drawn_sets_is_scored() -> None:
    # sacreBLEU's own bootstrap raises a TypeError here
    lines, references = ["a b c d", "no match"], [["a b c d", "x y z w"]]
    [scores] = sacrebleu_scores([lines], references, target_language="en")
    assert [np.isfinite(score.drawn).all() for score in scores] == [True] * 3
    assert scores[0].interval


def test_p_counts_differences_as_far_from_their_mean_as_the_observed_one_from_zero() -> None:
    deviations = np.array([-3.0, -1.0, 0.5, 1.5, 2.0])
    assert p_value(deviations, 2.0) == pytest.approx(3 / 6)
    assert p_value(deviations, -1.5) == pytest.approx(4 / 6)
    assert p_value(deviations, 9.0) == pytest.approx(1 / 6)
    assert p_value(deviations, 0.0) == 1.0
    assert p_value(np.array([0.3, -0.1]), 0.1 + 0.2) == 2 / 3  # more than 0.3 by rounding


def test_of_equal_systems_one_in_twenty_differs_by_p() -> None:
    generator = np.random.default_rng(3)
    bootstrap = Bootstrap(100)
    differences = generator.normal(size=(100, 600))  # the means of equal systems on 100 sentences
    drawn = bootstrap.sums(differences) / 100
    ours, theirs = (
        np.mean(
            [p(column, mean) < 0.05 for column, mean in zip(scores_of_system, means, strict=True)]
        )
        for p, scores_of_system, means in (
            (p_value, (drawn - drawn.mean(axis=0)).T, differences.mean(axis=0)),
            (sacrebleu_p_value, drawn.T, differences.mean(axis=0)),
        )
    )
    assert 0.03 < ours < 0.075
    assert theirs > 0.08


def test_drawn_sets_have_as_many_sentences_and_are_the_same_again() -> None:
    draws = np.random.default_rng(12345).choice(7, size=(1000, 7), replace=True)  # sacreBLEU's
    weights = Bootstrap(7).weights
    assert all((weights[row] == np.bincount(draws[row], minlength=7)).all() for row in range(1000))
    assert (weights.sum(axis=1) == 7).all()
    assert (weights == Bootstrap(7).weights).all()
    assert len(np.unique(weights, axis=0)) > 10
