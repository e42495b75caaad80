"""The batch sampler: every pair once, budgets kept, order a pure function of seed and epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.data.bucketing import BatchSampler
from jtrans.errors import ConfigError

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=150)
TOKENS = st.integers(1, 400)
JOINT = st.none() | st.integers(1, 9000)


def natural_lengths(pairs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of caption-like text: mean 15, both sides correlated."""
    random = np.random.default_rng(seed)
    common = random.normal(size=pairs)
    sides = [
        np.exp(2.6 + 0.33 * (0.9 * common + 0.44 * random.normal(size=pairs))) for _ in range(2)
    ]
    return np.rint(sides[0]).astype(int) + 2, np.rint(sides[1]).astype(int) + 2


def sampler(pairs: list[tuple[int, int]], **options: int | None) -> BatchSampler:
    source, target = zip(*pairs, strict=True)
    merged: dict[str, int | None] = {"max_tokens": 100, "max_joint": None, "seed": 1, **options}
    return BatchSampler(source, target, **merged)  # type: ignore[arg-type]


@given(LENGTHS, TOKENS, JOINT, st.integers(0, 5))
def test_every_pair_comes_exactly_once_per_epoch(
    pairs: Any, tokens: Any, joint: Any, epoch: Any
) -> None:
    batches = sampler(pairs, max_tokens=tokens, max_joint=joint).batches(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))


@given(LENGTHS, TOKENS, JOINT)
def test_batches_of_more_than_one_pair_keep_both_budgets(
    pairs: Any, tokens: Any, joint: Any
) -> None:
    lengths = np.array(pairs)
    for batch in sampler(pairs, max_tokens=tokens, max_joint=joint).batches(1):
        S, T = lengths[batch].max(axis=0)
        assert batch.size == 1 or batch.size * T <= tokens
        assert batch.size == 1 or joint is None or batch.size * S * T <= joint


@given(LENGTHS, TOKENS)
def test_cut_batches_keep_the_budget_of_source_tokens_and_their_order(
    pairs: Any, tokens: Any
) -> None:
    buckets = sampler(pairs, max_tokens=tokens)
    for batch in buckets.batches(1):
        parts = buckets.cut_by_source(batch)
        assert np.concatenate(parts).tolist() == batch.tolist()
        for part in parts:
            assert part.size == 1 or part.size * buckets.source_lengths[part].max() <= 2 * tokens


def test_long_sources_of_short_targets_do_not_share_a_batch() -> None:
    source, target = np.full(2048, 150), np.full(2048, 2)
    buckets = BatchSampler(source, target, max_tokens=4096, max_joint=None, seed=1)
    (whole,) = buckets.batches(0)
    parts = buckets.cut_by_source(whole)
    assert max(part.size for part in parts) * 150 <= 2 * 4096
    assert len(parts) == 38  # 54 pairs each


def test_ordinary_batches_stay_whole() -> None:
    source, target = natural_lengths(30_000)
    similar = source <= 1.5 * target  # prepared corpora hold no others
    source, target = source[similar], target[similar]
    buckets = BatchSampler(source, target, max_tokens=4096, max_joint=None, seed=1)
    assert all(len(buckets.cut_by_source(batch)) == 1 for batch in buckets.batches(0))
    joint = BatchSampler(source, target, max_tokens=64, max_joint=65_000, seed=1)
    assert all(len(joint.cut_by_source(batch)) == 1 for batch in joint.batches(0))


def test_a_pair_over_the_budget_forms_its_own_batch() -> None:
    batches = sampler([(5, 5), (5, 500), (5, 6)], max_tokens=20).batches(1)
    assert sorted(batch.tolist() for batch in batches) == [[0, 2], [1]]


@given(LENGTHS, JOINT, st.integers(0, 2**40), st.integers(0, 1000))
def test_the_same_seed_and_epoch_give_the_same_batches(
    pairs: Any, joint: Any, seed: int, epoch: Any
) -> None:
    first, second = (sampler(pairs, max_joint=joint, seed=seed).batches(epoch) for _ in range(2))
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in second]


@pytest.mark.parametrize("joint", [None, 20_000])
@pytest.mark.parametrize("other", [{"seed": 1, "epoch": 2}, {"seed": 2, "epoch": 1}])
def test_another_epoch_or_seed_gives_other_batches_in_another_order(joint: Any, other: Any) -> None:
    source, target = natural_lengths(2000)

    def batches(seed: int, epoch: int) -> list[list[int]]:
        buckets = BatchSampler(source, target, max_tokens=500, max_joint=joint, seed=seed)
        return [sorted(batch.tolist()) for batch in buckets.batches(epoch)]

    first, second = batches(1, 1), batches(**other)
    assert first != second
    assert {tuple(batch) for batch in first} != {tuple(batch) for batch in second}


@settings(max_examples=20)
@given(st.integers(0, 100))
def test_batches_come_in_no_order_of_length(epoch: Any) -> None:
    source, target = natural_lengths(3000)
    buckets = BatchSampler(source, target, max_tokens=300, max_joint=None, seed=epoch)
    means = [target[batch].mean() for batch in buckets.batches(epoch)]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


@pytest.mark.parametrize(
    ("pairs", "overhead", "waste", "full"),
    [(160_000, 5000, 1.03, 0.9), (160_000, 500, 1.01, 0.5), (30_000, 500, 1.02, 0.3)],
)
def test_joint_batches_waste_few_positions_and_fill_their_budget_the_more_a_batch_costs(
    pairs: int, overhead: int, waste: float, full: float
) -> None:
    source, target = natural_lengths(pairs)
    sampler = BatchSampler(
        source, target, max_tokens=4096, max_joint=65_000, overhead=overhead, seed=1
    )
    epoch_batches = sampler.batches(1)
    padded = sum(batch.size * source[batch].max() * target[batch].max() for batch in epoch_batches)
    assert padded <= waste * (source * target).sum()
    budget = [
        max(
            batch.size * target[batch].max() / 4096,
            1.0 * batch.size * source[batch].max() * target[batch].max() / 65_000,
        )
        for batch in epoch_batches
    ]
    assert np.mean(budget) > full


def test_batches_by_tokens_waste_at_most_two_percent_of_target_tokens() -> None:
    source, target = natural_lengths(30_000)
    epoch_batches = BatchSampler(source, target, max_tokens=4096, max_joint=None, seed=1).batches(1)
    padded = sum(batch.size * target[batch].max() for batch in epoch_batches)
    assert padded <= 1.02 * target.sum()


@pytest.mark.parametrize("budget", ["max_tokens", "max_joint"])
def test_a_budget_of_nothing_is_refused(budget: str) -> None:
    with pytest.raises(ConfigError, match=f"{budget} 0"):
        sampler([(3, 3), (4, 4)], **{budget: 0})
