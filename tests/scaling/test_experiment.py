"""Gradients over seeds, and what a result says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.small_corpus import MakeConfig

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import WorkError
from jtrans.scaling.experiment import (
    GradientSpread,
    ModelRuns,
    ScalingPlan,
    ScalingResult,
    find_gradients,
    find_scaling,
    predict,
)

LOSSES = {"base": {1: 2.0, 2: 2.2}, "deeper": {1: 1.9, 2: 2.0}, "wider": {1: 1.95, 2: 2.05}}


def model_runs(name: str, losses: dict[int, float], reason: str = "max_updates") -> ModelRuns:
    many = dict.fromkeys(losses, 1)
    times = dict.fromkeys(losses, 1.0)
    reasons = dict.fromkeys(losses, reason)
    return ModelRuns(name, {"layers": 1}, 32, 1.0, 100, losses, many, times, reasons)


def result_of(
    make_config: MakeConfig, losses: dict[str, dict[int, float]], reason: str = "max_updates"
) -> ScalingResult:
    seeds = tuple(losses["base"])
    config = make_config("reformer-base")
    plan = ScalingPlan("mine", config, Path("data"), Path("out"), 2.0, 1, seeds)
    runs = tuple(model_runs(name, by_seed, reason) for name, by_seed in losses.items())
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


def test_the_interval_of_two_seeds_is_that_of_student() -> None:
    spread = GradientSpread((0.1, 0.2))
    assert spread.half_interval == pytest.approx(12.706 * 0.05)
    assert GradientSpread((0.1,)).half_interval is None


def test_a_gradient_whose_sign_may_be_chance_is_a_warning(make_config: MakeConfig) -> None:
    assert "not certain" in " ".join(result_of(make_config, LOSSES).warnings)
    single = {name: {1: losses[1]} for name, losses in LOSSES.items()}
    assert "one seed" in " ".join(result_of(make_config, single).warnings)


def test_models_with_fewer_updates_in_the_same_time_are_a_warning(
    make_config: MakeConfig,
) -> None:
    warnings = result_of(make_config, LOSSES, "max_minutes").warnings
    assert "fewer updates" in " ".join(warnings)


def test_the_scaled_sizes_are_written_into_the_configuration(make_config: MakeConfig) -> None:
    result = result_of(make_config, LOSSES)
    model = result.scaled_config.model.model_dump()
    assert model["layers"] == 1 + result.scaling.more_layers
    assert model["ffn_width"] == 32 + 16 * result.scaling.more_width


def test_costs_are_estimated_in_another_process(
    make_config: MakeConfig, corpus: PreparedCorpus
) -> None:
    estimates = predict({"base": make_config()}, corpus.folder, "cpu")
    assert estimates["base"].parameters > 0
    assert estimates["base"].memory_bytes > 0


def test_an_estimate_that_fails_says_why(make_config: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(WorkError) as caught:
        predict({"base": make_config()}, tmp_path / "nowhere", "cpu")
    assert "base model" in caught.value.message
