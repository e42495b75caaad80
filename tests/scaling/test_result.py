"""Gradients over seeds, and what a result says of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.small_corpus import MakeConfig

from jtrans.scaling.experiment import ModelRuns, ScalingPlan
from jtrans.scaling.result import GradientSpread, ScalingResult, find_gradients, find_scaling

LOSSES = {"base": {1: 2.0, 2: 2.2}, "deeper": {1: 1.9, 2: 2.0}, "wider": {1: 1.95, 2: 2.05}}


def model_runs(
    name: str, losses: dict[int, float], reason: str = "max_updates", updates: int = 1
) -> ModelRuns:
    many = dict.fromkeys(losses, updates)
    times = dict.fromkeys(losses, 1.0)
    reasons = dict.fromkeys(losses, reason)
    return ModelRuns(name, {"layers": 1}, 32, 1.0, 100, losses, many, times, reasons)


def result_of(
    make_config: MakeConfig,
    losses: dict[str, dict[int, float]],
    reason: str = "max_updates",
    updates: tuple[int, int, int] = (1, 1, 1),
) -> ScalingResult:
    seeds = tuple(losses["base"])
    config = make_config("reformer-base")
    plan = ScalingPlan("mine", config, Path("data"), Path("out"), 2.0, 1, seeds)
    runs = tuple(
        model_runs(name, by_seed, reason, own)
        for (name, by_seed), own in zip(losses.items(), updates, strict=True)
    )
    depth, width = find_gradients(plan, runs)
    return ScalingResult(plan, runs, depth, width, find_scaling(plan, depth, width), {})


def test_gradients_are_means_of_differences_between_runs_of_one_seed(
    make_config: MakeConfig,
) -> None:
    result = result_of(make_config, LOSSES)
    assert result.depth.values == pytest.approx((0.1, 0.2))
    assert result.depth.mean == pytest.approx(0.15)
    assert result.width.mean == pytest.approx(0.1)
    assert result.scaling.gradients.depth == pytest.approx(0.15)
    assert [run.loss for run in result.runs] == pytest.approx([2.1, 1.95, 2.0])


def test_the_interval_of_two_seeds_is_that_of_student() -> None:
    spread = GradientSpread((0.1, 0.2))
    assert spread.half_interval == pytest.approx(12.706 * 0.05, rel=1e-4)
    assert GradientSpread((0.1,)).half_interval is None
    many = GradientSpread((0.1, 0.2) * 10)
    assert many.half_interval is not None and many.deviation is not None
    expected = 2.093 * many.deviation / math.sqrt(20)  # 19 degrees of freedom
    assert many.half_interval == pytest.approx(expected, rel=1e-4)


def test_a_gradient_whose_sign_may_be_chance_is_a_warning(make_config: MakeConfig) -> None:
    assert "not certain" in " ".join(result_of(make_config, LOSSES).warnings)
    steady = {name: {1: losses[1], 2: losses[1] + 0.25} for name, losses in LOSSES.items()}
    assert "not certain" not in " ".join(result_of(make_config, steady).warnings)
    worse = {**steady, "wider": {seed: loss + 0.01 for seed, loss in steady["base"].items()}}
    assert "not certain" not in " ".join(result_of(make_config, worse).warnings)
    single = {name: {1: losses[1]} for name, losses in LOSSES.items()}
    assert "one seed" in " ".join(result_of(make_config, single).warnings)


@pytest.mark.parametrize(
    ("reason", "updates", "is_told"),
    [
        ("max_minutes", (90, 40, 60), True),
        ("max_updates", (40, 20, 20), True),  # a limit was lowered between commands
        ("max_updates", (40, 40, 40), False),
        ("patience", (90, 40, 60), False),  # each has had all that it needs
    ],
)
def test_models_that_were_cut_off_at_other_updates_are_a_warning(
    make_config: MakeConfig, reason: str, updates: tuple[int, int, int], is_told: bool
) -> None:
    warnings = " ".join(result_of(make_config, LOSSES, reason, updates).warnings)
    assert ("equally many updates" in warnings) == is_told


def test_a_setting_that_finished_runs_do_not_take_is_a_warning(make_config: MakeConfig) -> None:
    result = result_of(make_config, LOSSES)
    changes = ("training.max_updates 2 -> 1",)
    runs = [replace(run, ignored=changes if run.name != "wider" else ()) for run in result.runs]
    [line] = [each for each in replace(result, runs=tuple(runs)).warnings if "finished" in each]
    assert line.startswith("base, deeper: ") and line.endswith(f"has: {changes[0]}")
    assert not [each for each in result.warnings if "finished" in each]


@pytest.mark.parametrize("updates", [(40, 40), (20, 40)])
def test_a_scaled_model_that_was_cut_off_elsewhere_is_a_warning(
    make_config: MakeConfig, updates: tuple[int, int]
) -> None:
    result = result_of(make_config, LOSSES, updates=(40, 40, 40))
    scaled = model_runs("scaled", {1: 1.8, 2: 1.8})
    scaled = replace(scaled, updates=dict(zip((1, 2), updates, strict=True)))
    warnings = " ".join(replace(result, runs=(*result.runs, scaled)).warnings)
    assert ("scaled 20 to 40" in warnings) == (updates != (40, 40))


def test_the_scaled_sizes_are_written_into_the_configuration(make_config: MakeConfig) -> None:
    result = result_of(make_config, LOSSES)
    model = result.scaled_config.model.model_dump()
    assert model["layers"] == 1 + result.scaling.more_layers
    assert model["ffn_width"] == 32 + 16 * result.scaling.more_width
