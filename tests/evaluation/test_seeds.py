"""Means over seeds: intervals and p-values over sentences and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from jtrans.evaluation.bootstrap import Bootstrap, half_width
from jtrans.evaluation.seeds import SeedSample, SeedTest, compare_means
from scripts.significance import equal_systems, share_that_differs

SENTENCES = 50
BOOTSTRAP = Bootstrap(SENTENCES)
TRIALS = 250


def systems(runs: int, spread: float, generator: np.random.Generator) -> list[SeedSample]:
    """Return twenty equal systems."""
    return equal_systems(BOOTSTRAP, runs, spread, 20, generator)


def sample(values: list[float], seed: int = 1, apart: float = 0.0) -> SeedSample:
    """Return runs whose drawn scores all vary alike, but for a part `apart` of each."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=1000)
    drawn = np.array(values)[:, None] + shared + apart * generator.normal(size=(len(values), 1000))
    return SeedSample(np.array(values), drawn)


@pytest.mark.sample(4)
@pytest.mark.parametrize("runs", [(2, 2), (3, 3), (3, 1), (5, 5)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_of_equal_systems_at_most_about_one_in_twenty_differs(
    runs: tuple[int, int], spread: float
) -> None:
    assert share_that_differs(runs, spread, TRIALS, SENTENCES) < 0.085


@pytest.mark.parametrize("runs", [(3, 3), (5, 5)])
def test_the_test_is_not_needlessly_strict(runs: tuple[int, int]) -> None:
    assert share_that_differs(runs, 0.5, TRIALS, SENTENCES) > 0.02


def test_single_runs_cannot_tell_what_other_seeds_would_give() -> None:
    assert share_that_differs((1, 1), 7.0, TRIALS, SENTENCES) > 0.5


def test_without_seeds_only_sentences_count() -> None:
    test = compare_means(sample([1.0]), sample([2.5], seed=2), sentences=100)
    assert isinstance(test, SeedTest)
    assert (test.has_seeds, test.is_borrowed, test.samples) == (False, False, 1000)


def test_a_system_without_a_score_lends_no_spread_and_hides_no_other() -> None:
    pair = sample([40.0]), sample([41.0], seed=2)
    spread = [sample([40.0, 42.0, 44.0]), sample([40.0, 41.0, np.nan])]
    known = compare_means(*pair, spread[:1], sentences=1000)
    assert known.is_borrowed and known.p_value > 0.1
    assert compare_means(*pair, spread, sentences=1000) == known
    alone = compare_means(*pair, sentences=1000)
    assert compare_means(*pair, spread[1:], sentences=1000) == alone and not alone.is_borrowed


def test_a_difference_within_the_spread_of_the_seeds_is_not_significant() -> None:
    # the drawn differences hardly vary: over sentences alone any difference would do
    first, other = sample([40.0, 43.0, 41.0]), sample([43.0, 41.5, 44.0])
    assert (other.drawn.mean(axis=0) - first.drawn.mean(axis=0)).std() < 0.01
    test = compare_means(first, other, sentences=1000)
    assert test.difference == pytest.approx(1.5)
    assert 0.1 < test.p_value < 0.6
    one = compare_means(sample([40.0]), sample([43.0]), sentences=1000)
    assert one.p_value == pytest.approx(1 / 1001)


def test_p_of_seeds_alone_is_that_of_welch() -> None:
    # Welch's t is 3.571 with 3.92 degrees of freedom, p = 0.0241
    test = compare_means(sample([40.0, 43.0, 41.0]), sample([45.0, 44.5, 47.0]), sentences=1000)
    assert test.p_value == pytest.approx(0.0241, abs=0.0002)


@pytest.mark.parametrize(("t", "p"), [(2.776, 0.05), (4.604, 0.01), (5.598, 0.005), (7.173, 0.002)])
def test_low_p_values_are_those_of_t(t: float, p: float) -> None:
    # of 3 + 3 runs with equal deviations: 4 degrees of freedom, a standard error of sqrt(2 / 3)
    spread = np.array([-1.0, 0.0, 1.0])
    first, other = sample(list(spread)), sample(list(spread + t * np.sqrt(2 / 3)))
    test = compare_means(first, other, sentences=1000)
    assert test.p_value == pytest.approx(p, rel=0.01)


def test_the_same_runs_used_in_two_ways_are_compared_run_by_run() -> None:
    # every run gains about as much, much less than runs differ
    first, other = sample([30.0, 40.0, 50.0]), sample([32.0, 42.1, 51.9])
    independent = compare_means(first, other, sentences=1000)
    assert independent.p_value > 0.5 and not independent.is_same_runs
    same = compare_means(first, other, [first], sentences=1000, is_same_runs=True)
    assert same.has_seeds and same.is_same_runs and not same.is_borrowed
    # t is 2 / (0.1 / sqrt(3)) with 2 degrees of freedom
    assert same.p_value == pytest.approx(0.00083, abs=0.0002)
    uneven = sample([35.0, 40.5, 48.0])
    assert compare_means(first, uneven, sentences=1000, is_same_runs=True).p_value > 0.5


def test_a_single_run_used_in_two_ways_borrows_nothing() -> None:
    first, other, several = sample([40.0]), sample([41.0], seed=2), sample([30.0, 40.0, 50.0])
    test = compare_means(first, other, [several], sentences=1000, is_same_runs=True)
    alone = compare_means(first, other, sentences=1000)
    assert test.p_value == alone.p_value and not test.has_seeds


def test_a_single_run_takes_the_deviation_of_the_other_system_or_of_all_others() -> None:
    several, single, another = sample([40.0, 43.0, 41.0]), sample([44.0]), sample([45.0])
    alone = compare_means(single, another, sentences=1000)
    borrowed = compare_means(several, single, sentences=1000)
    from_others = compare_means(single, another, [several], sentences=1000)
    assert (borrowed.has_seeds, borrowed.is_borrowed) == (True, True)
    assert (from_others.has_seeds, from_others.is_borrowed) == (True, True)
    assert from_others.p_value > alone.p_value


def test_what_differs_by_sentence_is_not_counted_twice_in_borrowed_seeds() -> None:
    # of the variance over sentences, 1 for each run, half is in that of the seeds, which is 1, too:
    # 1.5 for each run, so that a difference of 3 is sqrt(3) standard errors
    others = sample([39.0, 41.0] * 50, seed=3, apart=float(np.sqrt(0.5)))
    test = compare_means(sample([40.0]), sample([43.0], seed=2), [others], sentences=1000)
    assert test.is_borrowed
    assert test.p_value == pytest.approx(0.083, abs=0.008)


def test_of_several_systems_those_with_more_runs_lend_more() -> None:
    # variances of 2 and 0.5 with 1 and 4 degrees of freedom: 0.8 with 5, whose t is 2.571 at 0.05
    others = sample([39.0, 41.0]), sample([39.0, 40.0, 40.0, 40.0, 41.0])
    other = sample([40.0 + 2.571 * np.sqrt(0.8 + 0.8)])
    test = compare_means(sample([40.0]), other, others, sentences=1000)
    assert test.is_borrowed
    assert test.p_value == pytest.approx(0.05, rel=0.01)


def test_equal_means_do_not_differ() -> None:
    assert compare_means(sample([1.0, 2.0]), sample([2.0, 1.0]), sentences=9).p_value == 1


def test_the_interval_of_several_seeds_is_that_of_t_where_sentences_do_not_vary() -> None:
    seeds = SeedSample(np.array([40.0, 43.0, 41.0]), np.full((3, 1000), 41.0))
    expected = 4.303 * np.std([40, 43, 41], ddof=1) / np.sqrt(3)
    assert seeds.interval() == pytest.approx(expected, rel=0.03)
    low, high = seeds.ends() or (0, 0)
    assert high - low == pytest.approx(2 * expected, rel=0.03)
    assert seeds.deviation == pytest.approx(np.std([40, 43, 41], ddof=1))


def test_the_interval_of_a_single_run_is_that_of_sacrebleu() -> None:
    single = sample([40.0])
    assert single.interval() == pytest.approx(half_width(single.drawn[0]))


def test_what_differs_by_sentence_is_not_counted_twice() -> None:
    # the scores of the runs differ as much as drawing sentences makes them differ
    seeds = sample([-1.0, 0.0, 1.0], apart=1.2)
    assert seeds.interval() == pytest.approx(half_width(seeds.drawn.mean(axis=0)))


@pytest.mark.parametrize("runs", [(3, 3), (3, 1)])
def test_the_order_of_the_drawn_sets_makes_no_difference(runs: tuple[int, int]) -> None:
    generator = np.random.default_rng(5)
    for pair in zip(*(systems(number, 1.0, generator) for number in runs), strict=True):
        order = generator.permutation(pair[0].drawn.shape[1])
        first, other = (SeedSample(each.values, each.drawn[:, order]) for each in pair)
        p = compare_means(first, other, sentences=SENTENCES).p_value
        assert p == pytest.approx(compare_means(*pair, sentences=SENTENCES).p_value, abs=1e-5)
        assert other.interval() == pytest.approx(pair[1].interval())


def test_drawn_sets_without_a_value_are_left_out() -> None:
    first, other = sample([1.0, 2.0]), sample([5.0, 7.0])
    other.drawn[1, :10] = np.nan
    test = compare_means(first, other, sentences=100)
    assert test.samples == 990
    nothing = SeedSample(np.array([np.nan]), np.full((1, 1000), np.nan))
    assert compare_means(first, nothing, sentences=100).p_value == 1
    assert nothing.ends() is None


@pytest.mark.parametrize("runs", [(3, 3), (2, 3), (3, 1)])
def test_the_two_systems_of_a_comparison_can_change_places(runs: tuple[int, int]) -> None:
    generator = np.random.default_rng(3)
    for first, other in zip(*(systems(number, 1.0, generator) for number in runs), strict=True):
        one, back = (
            compare_means(*pair, sentences=SENTENCES) for pair in ((first, other), (other, first))
        )
        assert one.p_value == back.p_value
        assert one.difference == -back.difference
