"""Gradients over seeds, and what a result says of them."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.random_runs import MakeRun
from plugins.small_corpus import MakeConfig

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError, WorkError
from jtrans.runs import Run
from jtrans.scaling.experiment import (
    GradientSpread,
    ModelRuns,
    ScalingPlan,
    ScalingResult,
    find_gradients,
    find_scaling,
    lowest_loss,
    predict,
    train_model,
)
from jtrans.training.events import Result, TrainingEvents

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


@pytest.mark.parametrize("updates", [(40, 40), (20, 40)])
def test_a_scaled_model_that_was_cut_off_elsewhere_is_a_warning(
    make_config: MakeConfig, updates: tuple[int, int]
) -> None:
    result = result_of(make_config, LOSSES, updates=(40, 40, 40))
    scaled = model_runs("scaled", {1: 1.8, 2: 1.8})
    scaled = replace(scaled, updates=dict(zip((1, 2), updates, strict=True)))
    warnings = " ".join(replace(result, runs=(*result.runs, scaled)).warnings)
    assert ("scaled 20 to 40" in warnings) == (updates != (40, 40))


@pytest.mark.parametrize(("losses", "lowest"), [(["NaN", "2.5", "2.75"], 2.5), (["2.5"], 2.5)])
def test_a_validation_without_a_loss_is_not_the_lowest(
    make_run: MakeRun, losses: list[str], lowest: float
) -> None:
    assert lowest_loss(log_of(make_run(), losses)) == lowest


def test_a_signal_that_came_too_late_for_a_run_begins_no_other(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    config = make_config("transformer", max_updates=1, validate_every=1)
    plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1, 2))
    ended: list[Result] = []

    class Signalled(TrainingEvents):
        def end(self, result: Result) -> None:
            ended.append(result)

    options: dict[str, Any] = {
        "device": "cpu",
        "events": Signalled,
        "should_stop": lambda: bool(ended),
    }
    assert train_model(plan, "base", config, **options) is None
    assert [each.run for each in ended] == [plan.run_folder("base", config, 1)]
    assert not Run.exists(plan.run_folder("base", config, 2))


def test_a_model_tells_its_minutes_and_its_runs_go_on_with_other_limits(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"max_updates": 1, "validate_every": 1}
    config = make_config("transformer", **values)
    plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1,))
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    runs = train_model(plan, "base", config, **options, should_stop=lambda: False)
    end = Run(plan.run_folder("base", config, 1)).events()[-1]
    assert runs is not None and runs.minutes[1] == end["seconds"] / 60
    stop = {"metric": "valid-loss", "patience": 3}
    for limits in ({"max_updates": 2}, {"max_minutes": 5}, {"stop": stop}, {"keep": {"last": 7}}):
        plan.check_runs("base", make_config("transformer", **values | limits))
    with pytest.raises(JtransError, match=r"training\.learning_rate"):
        plan.check_runs("base", make_config("transformer", **values, learning_rate=0.5))


def test_updates_that_training_went_back_from_do_not_count(make_run: MakeRun) -> None:
    run = Run(make_run())
    for update, loss in ((30, 5.5), (60, 5.2), (80, 4.5)):
        run.log({"event": "validation", "update": update, "valid_loss": loss})
    run.log({"event": "return", "update": 60, "returns": 1})
    run.log({"event": "validation", "update": 90, "valid_loss": 5.0})
    assert [event["update"] for event in run.validations()] == [30, 60, 90]
    assert lowest_loss(run) == 5.0


@pytest.mark.parametrize("losses", [[], ["NaN"], ["Infinity", "NaN"]])
def test_a_run_without_a_finite_loss_says_what_to_do(make_run: MakeRun, losses: list[str]) -> None:
    with pytest.raises(WorkError) as caught:
        lowest_loss(log_of(make_run(), losses))
    assert "delete it" in (caught.value.hint or "")


def log_of(folder: Path, losses: list[str]) -> Run:
    lines = [f'{{"event": "validation", "valid_loss": {loss}}}\n' for loss in losses]
    (folder / "log.jsonl").write_text("".join(lines), encoding="utf-8")
    return Run.open(folder)


def test_an_estimate_whose_process_was_killed_says_so(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr("jtrans.scaling.experiment.own_command", lambda: dying)
    with pytest.raises(WorkError, match=r"deeper model cannot be .* memory runs out") as error:
        predict({"deeper": make_config()}, Path("data"), None)
    assert "--step" in str(error.value.hint)


def test_the_scaled_sizes_are_written_into_the_configuration(make_config: MakeConfig) -> None:
    result = result_of(make_config, LOSSES)
    model = result.scaled_config.model.model_dump()
    assert model["layers"] == 1 + result.scaling.more_layers
    assert model["ffn_width"] == 32 + 16 * result.scaling.more_width


def test_an_estimate_that_refuses_its_input_ends_as_bad_input(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"message": "the corpus is damaged", "hint": "prepare it", "kind": "corpus.damaged"}
    answer = json.dumps({"error": error})
    code = f"print({answer!r}); exit(2)"
    monkeypatch.setattr(
        "jtrans.scaling.experiment.own_command", lambda: [sys.executable, "-c", code]
    )
    with pytest.raises(JtransError, match="the corpus is damaged") as caught:
        predict({"base": make_config()}, Path("data"), None)
    assert (caught.value.exit_code, caught.value.kind) == (2, "corpus.damaged")


@pytest.mark.thorough
def test_costs_are_estimated_in_another_process(
    make_config: MakeConfig, corpus: PreparedCorpus
) -> None:
    estimates = predict({"base": make_config()}, corpus.folder, "cpu")
    assert estimates["base"].parameters > 0
    assert estimates["base"].memory_bytes > 0


@pytest.mark.thorough
def test_an_estimate_without_a_corpus_says_why(make_config: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(JtransError) as caught:
        predict({"base": make_config()}, tmp_path / "nowhere", "cpu")
    assert "base model" in caught.value.message
    assert (caught.value.kind, caught.value.exit_code) == ("corpus.not-prepared", 2)
