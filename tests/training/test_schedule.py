"""The schedules of RNMT+ and ConvS2S (docs/systems.md 0.7 and 7.8)."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.config import ScheduleConfig, TrainingConfig
from jtrans.training.optimisation.schedule import Plateau, Schedule


def rnmt(replicas: int, **options: float) -> Schedule:
    config = ScheduleConfig.model_validate({"name": "rnmt", "replicas": replicas, **options})
    return Schedule(config, 1e-4, 1024)


@pytest.mark.parametrize(
    ("replicas", "update", "expected"),
    [
        (1, 0, 1.0e-4),
        (1, 400_000, 1.0e-4),
        (1, 800_000, 7.071e-5),
        (1, 1_200_000, 5e-5),
        (1, 9_000_000, 5e-5),
        (8, 0, 1e-4),
        (8, 4_000, 8e-4),
        (8, 50_000, 8e-4),
        (8, 150_000, 5e-5),
        (32, 0, 1e-4),
        (32, 100, 1.19375e-4),
        (32, 8_000, 1.65e-3),
        (32, 25_000, 4e-4),
        (32, 37_500, 5e-5),
        (32, 10**9, 5e-5),
    ],
)
def test_the_rate_of_rnmt_is_that_of_the_table(replicas: int, update: int, expected: float) -> None:
    """N9."""
    assert rnmt(replicas).rate(update) == pytest.approx(expected, rel=1e-4)


@given(update=st.integers(0, 400_000))
def test_one_replica_has_a_constant_rate_until_the_decay(update: int) -> None:
    """N9."""
    assert rnmt(1).rate(update) == 1e-4


def test_with_many_replicas_the_decay_cuts_the_warm_up_off() -> None:
    """N9: the peak of 32 replicas is 2.71e-3, not 3.2e-3."""
    schedule = rnmt(32)
    peak = max(range(12_000, 16_001), key=schedule.rate)
    assert peak == pytest.approx(13_490, abs=10)
    assert schedule.rate(peak) == pytest.approx(2.71e-3, rel=2e-3)


def test_a_late_start_decays_after_the_whole_warm_up() -> None:
    """N9: the authors' code moves the start to max(n p + 1, s / n)."""
    schedule = rnmt(32, late_start=True)
    assert schedule.rate(16_000) == schedule.rate(16_001) == pytest.approx(3.2e-3)
    assert schedule.rate(16_002) < 3.2e-3
    assert schedule.rate(37_500) == pytest.approx(5e-5)
    same = [rnmt(8, late_start=late).rate(70_000) for late in (False, True)]
    assert same[0] == same[1]  # it starts later than the warm-up ends by itself


@given(
    replicas=st.integers(1, 64),
    warmup=st.integers(0, 1000),
    start=st.integers(0, 10**6),
    length=st.integers(1, 10**6),
    late=st.booleans(),
    update=st.integers(0, 10**7),
)
def test_any_rate_of_rnmt_lies_between_its_end_and_its_peak(
    replicas: int, warmup: int, start: int, length: int, late: bool, update: int
) -> None:
    """N9: no setting overflows, and nothing exceeds n replicas' rate."""
    options = {"warmup": warmup, "decay_start": start, "decay_end": start + length}
    rate = rnmt(replicas, **options, late_start=late).rate(update)
    assert math.isfinite(rate)
    assert 5e-5 * (1 - 1e-9) <= rate <= 1e-4 * replicas


def test_the_floor_counts_after_the_warm_up_of_all_replicas() -> None:
    schedule = rnmt(8, warmup=10, floor=2e-4)
    assert not any(map(schedule.is_exhausted, (1, 11, 80)))
    assert schedule.is_exhausted(150_000)


def plateau(**options: float) -> Schedule:
    return Schedule(ScheduleConfig.model_validate({"name": "plateau", **options}), 0.25, 256)


def test_a_plateau_rate_falls_with_the_validations_that_do_not_improve() -> None:
    """docs/systems.md 0.7: 0.25, tenfold less at every plateau, until it is below 1e-4."""
    schedule, state = plateau(), Plateau()
    rates = []
    for loss in (3.0, 2.0, 2.1, 1.9, 1.9, 1.9, 1.8, 2.0):
        state.judge(loss, schedule.config.patience or 1)
        rates.append(schedule.rate(1, state.drops))
    expected = [0.25, 0.25, 0.025, 0.025, 2.5e-3, 2.5e-4, 2.5e-4, 2.5e-5]
    assert rates == pytest.approx(expected)
    assert not schedule.is_exhausted(1, 3) and schedule.is_exhausted(1, 4)


@given(losses=st.lists(st.floats(0, 10), max_size=30), patience=st.integers(1, 4))
def test_patience_is_the_number_of_validations_before_the_rate_falls(
    losses: list[float], patience: int
) -> None:
    """docs/systems.md 0.7: stale validations are counted anew after each fall."""
    state, stale, drops = Plateau(), 0, 0
    for index, loss in enumerate(losses):
        state.judge(loss, patience)
        stale = 0 if all(loss < other for other in losses[:index]) else stale + 1
        if stale == patience:
            drops, stale = drops + 1, 0
        assert (state.drops, state.stale) == (drops, stale)


def with_end(name: str, **options: float) -> Schedule:
    values = {"name": name, "warmup": 100, "updates": 1100, **options}
    return Schedule(ScheduleConfig.model_validate(values), 2.0, 256)


@given(final=st.floats(0, 0.5), update=st.integers(100, 2000))
def test_cosine_is_half_a_period_from_the_warm_up_to_the_end(final: float, update: int) -> None:
    """docs/systems.md 0.7."""
    schedule = with_end("cosine", final=final)
    over = min(1.0, (update - 100) / 1000)
    expected = 2.0 * (final + (1 - final) * math.cos(math.pi * over / 2) ** 2)
    assert schedule.rate(update) == pytest.approx(expected, abs=1e-12)
    assert schedule.is_exhausted(2000) == (2.0 * final < 1e-9)


@pytest.mark.parametrize("name", ["cosine", "wsd"])
def test_a_rate_of_0_ends_training_whatever_the_floor(name: str) -> None:
    assert not with_end(name, floor=0.0).is_exhausted(1100)
    assert with_end(name, floor=0.0).is_exhausted(1101)
    assert not with_end(name, floor=0.0, final=0.1).is_exhausted(1101)


def test_wsd_is_constant_until_its_cooldown() -> None:
    """docs/systems.md 0.7: the last fifth of the thousand updates after the warm-up."""
    schedule = with_end("wsd", final=0.1)
    assert schedule.rate(50) == pytest.approx(1.0, rel=1e-6)
    assert {schedule.rate(update) for update in (100, 500, 900)} == {2.0}
    assert schedule.rate(950) == pytest.approx(2.0 * (0.1 + 0.9 * 0.5))  # sqrt(1/4) is over
    assert schedule.rate(1100) == schedule.rate(5000) == pytest.approx(0.2)
    assert not schedule.is_exhausted(5000)


@pytest.mark.parametrize("name", ["cosine", "wsd"])
def test_without_an_end_of_its_own_a_schedule_ends_with_the_updates(name: str) -> None:
    values = {"schedule": {"name": name, "warmup": 10}, "max_updates": 100_000}
    schedule = Schedule.from_config(TrainingConfig.model_validate(values), 64)
    assert schedule.rate(99_950) < schedule.rate(99_000) / 4
    assert not any(map(schedule.is_exhausted, (5, 99_950, 99_999, 100_000)))
    assert schedule.is_exhausted(100_001)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"schedule": {"name": "cosine"}, "max_epochs": 3}, "needs the update at which it ends"),
        ({"schedule": {"name": "wsd", "warmup": 9}, "max_updates": 9}, "within its warm-up"),
        ({"schedule": {"name": "cosine", "warmup": 9, "updates": 9}}, "within its warm-up"),
        ({"schedule": {"name": "noam", "updates": 9}}, "a setting of cosine and wsd"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TrainingConfig.model_validate(values)
