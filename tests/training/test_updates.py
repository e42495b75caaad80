from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.data.prepared import PreparedCorpus
from jtrans.training.updates import UpdatePlan, group_micro_batches

BUDGET = 100


@given(st.lists(st.integers(1, 120), min_size=1, max_size=40))
def test_updates_hold_every_micro_batch_once_in_order(tokens: list[int]) -> None:
    micro_batches = [np.array([index]) for index in range(len(tokens))]
    updates = group_micro_batches(micro_batches, tokens, BUDGET)
    assert [int(indices[0]) for update in updates for indices in update] == list(range(len(tokens)))
    assert all(updates)


@given(st.lists(st.integers(10, 50), min_size=10, max_size=60))
def test_updates_of_small_micro_batches_come_near_the_budget(tokens: list[int]) -> None:
    micro_batches = [np.array([index]) for index in range(len(tokens))]
    updates = group_micro_batches(micro_batches, tokens, BUDGET)
    sums = [sum(tokens[indices[0]] for indices in update) for update in updates]
    assert all(abs(total - BUDGET) <= 25 for total in sums[:-1])
    assert BUDGET / 2 <= sums[-1] <= 1.75 * BUDGET


def test_full_micro_batches_are_updates_of_their_own() -> None:
    micro_batches = [np.array([index]) for index in range(5)]
    updates = group_micro_batches(micro_batches, [97] * 5, BUDGET)
    assert [len(update) for update in updates] == [1] * 5


@pytest.mark.parametrize(("rest", "sizes"), [(49, [2]), (50, [1, 1])])
def test_a_remainder_of_half_the_budget_is_an_update_of_its_own(
    rest: int, sizes: list[int]
) -> None:
    updates = group_micro_batches([np.array([0]), np.array([1])], [97, rest], BUDGET)
    assert [len(update) for update in updates] == sizes


def test_an_epoch_holds_every_pair_once_and_repeats(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    training = make_config(micro_batch_tokens=20).training
    plan = UpdatePlan(corpus.pairs("train"), training, is_joint=False)

    def order(plan: UpdatePlan, epoch: int) -> list[int]:
        return [int(index) for update in plan.epoch(epoch) for index in np.concatenate(update)]

    pairs = order(plan, 3)
    assert sorted(pairs) == list(range(120))
    assert order(UpdatePlan(corpus.pairs("train"), training, is_joint=False), 3) == pairs
    assert order(plan, 4) != pairs


def test_room_for_larger_micro_batches_makes_no_larger_updates(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    plans = []
    for room in (None, 1000):
        training = make_config(batch_tokens=60, micro_batch_tokens=room).training
        plan = UpdatePlan(corpus.pairs("train"), training, is_joint=False)
        plans.append([np.concatenate(update).tolist() for update in plan.epoch(0)])
    assert plans[0] == plans[1]


def test_joint_micro_batches_keep_within_their_positions(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    training = make_config(batch_tokens=200, micro_batch_joint=100).training
    plan = UpdatePlan(corpus.pairs("train"), training, is_joint=True)
    micro_batches = [indices for update in plan.epoch(0) for indices in update]
    assert max(plan.positions([indices]) for indices in micro_batches) <= 100
    assert len(plan.epoch(0)) < len(micro_batches) / 3
