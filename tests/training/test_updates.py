import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jtrans.data.prepared import PreparedCorpus
from jtrans.training.updates import UpdatePlan, group_passes

BUDGET = 100


@given(st.lists(st.integers(1, 120), min_size=1, max_size=40))
def test_updates_hold_every_pass_once_in_order(tokens: list[int]) -> None:
    passes = [np.array([index]) for index in range(len(tokens))]
    updates = group_passes(passes, tokens, BUDGET)
    assert [int(one[0]) for update in updates for one in update] == list(range(len(tokens)))
    assert all(updates)


@given(st.lists(st.integers(10, 50), min_size=10, max_size=60))
def test_updates_of_small_passes_come_near_the_budget(tokens: list[int]) -> None:
    passes = [np.array([index]) for index in range(len(tokens))]
    sums = [sum(tokens[one[0]] for one in each) for each in group_passes(passes, tokens, BUDGET)]
    assert all(abs(total - BUDGET) <= 25 for total in sums[:-1])
    assert BUDGET / 2 <= sums[-1] <= 1.75 * BUDGET


def test_full_passes_are_updates_of_their_own() -> None:
    passes = [np.array([index]) for index in range(5)]
    assert [len(update) for update in group_passes(passes, [97] * 5, BUDGET)] == [1] * 5


def test_an_epoch_holds_every_pair_once_and_repeats(corpus: PreparedCorpus, make_config) -> None:
    training = make_config(micro_batch_tokens=20).training
    plan = UpdatePlan(corpus.pairs("train"), training, is_joint=False)

    def order(plan: UpdatePlan, epoch: int) -> list[int]:
        return [index for update in plan.epoch(epoch) for one in update for index in one.tolist()]

    pairs = order(plan, 3)
    assert sorted(pairs) == list(range(120))
    assert order(UpdatePlan(corpus.pairs("train"), training, is_joint=False), 3) == pairs
    assert order(plan, 4) != pairs


def test_joint_passes_keep_within_their_positions(corpus: PreparedCorpus, make_config) -> None:
    training = make_config(batch_tokens=200, micro_batch_joint=100).training
    plan = UpdatePlan(corpus.pairs("train"), training, is_joint=True)
    passes = [one for update in plan.epoch(0) for one in update]
    assert max(plan.positions([one]) for one in passes) <= 100
    assert len(plan.epoch(0)) < len(passes) / 3
