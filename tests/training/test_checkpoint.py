from hypothesis import given
from hypothesis import strategies as st

from jtrans.training.checkpoint import Totals, TrainingState, choose_checkpoints_to_keep

losses = st.lists(st.none() | st.floats(0.0, 10.0), min_size=1, max_size=20)


@given(losses=losses, last=st.integers(1, 6), best=st.integers(1, 4))
def test_the_newest_the_last_and_the_best_are_kept(
    losses: list[float | None], last: int, best: int
) -> None:
    kept = choose_checkpoints_to_keep(losses, last=last, best=best)
    validated = [index for index, loss in enumerate(losses) if loss is not None]
    assert len(losses) - 1 in kept
    assert set(validated[-last:]) <= kept
    if validated:
        assert min(validated, key=lambda index: losses[index] or 0.0) in kept
    assert len(kept) <= last + best + 1


def test_resume_points_go_when_there_is_a_newer_checkpoint() -> None:
    assert choose_checkpoints_to_keep([None, 3.0, None, 2.0], last=5, best=1) == {1, 3}


def test_among_equally_good_checkpoints_the_older_is_the_best() -> None:
    assert choose_checkpoints_to_keep([2.0, 2.0, 3.0, 4.0], last=1, best=1) == {0, 3}


def test_a_state_comes_back_from_json_as_it_was() -> None:
    import dataclasses
    import json

    state = TrainingState(
        update=7,
        seconds=1 / 3,
        best={"value": 0.1, "update": 5},
        validation={"loss": 2 / 3},
        since_log=Totals(loss=0.1 + 0.2, tokens=9),
    )
    text = json.dumps(dataclasses.asdict(state))
    assert TrainingState.from_json(json.loads(text)) == state
