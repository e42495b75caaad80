from hypothesis import given
from hypothesis import strategies as st

from jtrans.config import KeepConfig
from jtrans.training.saving.surplus import Saved, choose_checkpoints_to_keep
from jtrans.training.state import Totals, TrainingState

losses = st.lists(st.none() | st.floats(0.0, 10.0), min_size=1, max_size=20)


def chosen(losses: list[float | None], last: int, best: int) -> set[int]:
    return choose_checkpoints_to_keep(
        [Saved(loss) for loss in losses], KeepConfig(last=last, best=best)
    )


@given(losses=losses, last=st.integers(1, 6), best=st.integers(1, 4))
def test_the_newest_the_last_and_the_best_are_kept(
    losses: list[float | None], last: int, best: int
) -> None:
    kept = chosen(losses, last, best)
    validated = [index for index, loss in enumerate(losses) if loss is not None]
    assert len(losses) - 1 in kept
    assert set(validated[-last:]) <= kept
    if validated:
        assert min(validated, key=lambda index: losses[index] or 0.0) in kept
    assert len(kept) <= last + best + 1


def test_resume_points_go_when_there_is_a_newer_checkpoint() -> None:
    assert chosen([None, 3.0, None, 2.0], last=5, best=1) == {1, 3}


def test_among_equally_good_checkpoints_the_older_is_the_best() -> None:
    assert chosen([2.0, 2.0, 3.0, 4.0], last=1, best=1) == {0, 3}


@given(
    steps=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=40),
    every=st.sampled_from([0.5, 1.0, 7.0]),
)
def test_of_every_period_the_first_checkpoint_stays_for_good(
    steps: list[float], every: float
) -> None:
    keep = KeepConfig(last=1, best=1, every_hours=every)
    hours, saved, all_hours = 0.0, list[Saved](), list[float]()
    for step in steps:
        hours += step
        all_hours.append(hours)
        saved.append(Saved(None, hours))
        saved = [saved[index] for index in sorted(choose_checkpoints_to_keep(saved, keep))]
    first: dict[int, float] = {}
    for value in all_hours:
        first.setdefault(int(value / every), value)
    first.pop(0, None)
    assert {each.hours for each in saved} == {*first.values(), all_hours[-1]}


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
    older = json.loads(text)  # of a version that did not set the first updates apart
    for sums in (older["since_log"], older["since_validation"]):
        for name in [name for name in sums if name.startswith("warm_up_")]:
            del sums[name]
    assert TrainingState.from_json(older) == state
