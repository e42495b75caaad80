import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from jtrans.config import ScheduleConfig, TrainingConfig
from jtrans.training.optimisation.optimiser import make_optimiser
from jtrans.training.optimisation.schedule import Schedule


def make(
    name: str, *, rate: float = 1e-3, warmup: int = 10, width: int = 64, **options: float
) -> Schedule:
    config = ScheduleConfig.model_validate({"name": name, "warmup": warmup, **options})
    return Schedule(config, rate, width)


updates = st.integers(1, 10**6)
warmups = st.integers(1, 20_000)
widths = st.sampled_from([16, 256, 512, 1024])


@given(update=updates, warmup=warmups, width=widths, scale=st.floats(0.01, 10.0))
def test_noam_is_inverse_sqrt_from_zero_to_its_peak(  # T6
    update: int, warmup: int, width: int, scale: float
) -> None:
    peak = scale * (width * warmup) ** -0.5
    same = make("inverse-sqrt", rate=peak, warmup=warmup, warmup_init=0.0).rate(update)
    noam = make("noam", rate=scale, warmup=warmup, width=width).rate(update)
    assert noam == pytest.approx(same, rel=1e-9)


def test_noam_of_the_paper_peaks_at_the_well_known_rate() -> None:
    noam = make("noam", rate=1.0, warmup=4000, width=512)
    assert noam.rate(4000) == pytest.approx(6.988e-4, rel=1e-4)


@given(warmup=st.integers(2, 20_000), rate=st.floats(1e-5, 1.0))
def test_inverse_sqrt_rises_linearly_and_halves_after_four_times_the_warm_up(
    warmup: int, rate: float
) -> None:
    schedule = make("inverse-sqrt", rate=rate, warmup=warmup, warmup_init=0.0)
    assert schedule.rate(warmup) == pytest.approx(rate)
    assert schedule.rate(1) == pytest.approx(rate / warmup)
    assert schedule.rate(4 * warmup) == pytest.approx(rate / 2)


def test_warm_up_begins_at_its_initial_rate() -> None:
    assert make("inverse-sqrt", rate=1.0, warmup=10**6).rate(1) == pytest.approx(1e-7 + 1e-6)


@pytest.mark.parametrize("name", ["inverse-sqrt", "noam", "constant"])
def test_every_schedule_works_without_warm_up(name: str) -> None:
    rates = [make(name, warmup=0).rate(update) for update in (1, 2, 100)]
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)


def test_constant_is_the_learning_rate_from_the_first_update() -> None:
    assert {make("constant", rate=0.5).rate(update) for update in (1, 5, 10**6)} == {0.5}


def test_learning_rate_is_the_factor_of_noam() -> None:
    assert make("noam", rate=2.0).rate(7) == pytest.approx(2.0 * make("noam", rate=1.0).rate(7))


def test_the_floor_ends_training_only_after_the_warm_up() -> None:
    schedule = make("inverse-sqrt", rate=1e-3, floor=5e-4, warmup=10)
    assert schedule.rate(1) < 5e-4 and not schedule.is_exhausted(1)
    assert not schedule.is_exhausted(39)
    assert schedule.is_exhausted(41)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("adam", {"betas": (0.8, 0.95), "eps": 1e-5}, {"betas": (0.8, 0.95), "eps": 1e-5}),
        ("adafactor", {"decay_power": 0.6, "clip_step": 2.0}, {"beta2_decay": -0.6, "d": 2.0}),
        ("nesterov", {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_an_optimiser_has_the_settings_that_are_chosen(
    name: str, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    decay = 0.0 if name == "nesterov" else 0.1
    values = {"optimiser": {"name": name, **settings}, "weight_decay": decay}
    optimiser = make_optimiser(nn.Linear(2, 2), TrainingConfig.model_validate(values))
    (group,) = optimiser.param_groups
    assert {key: group[key] for key in expected} == expected
    assert group["weight_decay"] == decay


def _adafactor_steps(scale: float) -> list[torch.Tensor]:
    """Return the weights of a matrix and of a vector after each of some updates."""
    generator = torch.Generator().manual_seed(1)
    model = nn.Linear(8, 6)
    nn.init.normal_(model.weight, generator=generator)
    nn.init.zeros_(model.bias)
    optimiser = make_optimiser(
        model, TrainingConfig.model_validate({"optimiser": {"name": "adafactor"}})
    )
    weights = []
    for update in range(1, 21):
        for parameter in model.parameters():
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient * scale / update  # which clipping alone would not show
        optimiser.step()
        weights.append(torch.cat([model.weight.detach().flatten(), model.bias.detach()]))
    return weights


def test_steps_of_adafactor_do_not_depend_on_the_scale_of_the_gradient() -> None:
    for large, small in zip(_adafactor_steps(1.0), _adafactor_steps(1e-6), strict=True):
        torch.testing.assert_close(small, large, rtol=1e-5, atol=1e-7)


def test_adafactor_survives_rows_without_a_gradient() -> None:
    assert all(bool(weights.isfinite().all()) for weights in _adafactor_steps(0.0))
