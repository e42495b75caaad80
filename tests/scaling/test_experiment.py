"""The runs of the models: which go on, and the losses that they have reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugins.random_runs import MakeRun
from plugins.small_corpus import MakeConfig

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError, WorkError
from jtrans.runs import Run
from jtrans.scaling.experiment import ScalingPlan, lowest_loss, train_model
from jtrans.training.checkpoint import check_log
from jtrans.training.events import Result, TrainingEvents


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


def test_a_model_tells_its_sizes_and_minutes_and_its_runs_go_on_with_other_limits(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"max_updates": 1, "validate_every": 1}
    config = make_config("transformer", **values)
    plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1,))
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    runs = train_model(plan, "base", config, **options, should_stop=lambda: False)
    end = Run(plan.run_folder("base", config, 1)).events()[-1]
    assert runs is not None and runs.minutes[1] == end["seconds"] / 60
    deeper = train_model(
        plan, "deeper", plan.configs["deeper"], **options, should_stop=lambda: False
    )
    assert deeper is not None and set(deeper.layers.values()) == {2}
    assert (runs.ratio, deeper.ratio) == (1.0, 2.0) and deeper.parameters > runs.parameters
    stop = {"metric": "valid-loss", "patience": 3}
    for limits in ({"max_updates": 2}, {"max_minutes": 5}, {"stop": stop}, {"keep": {"last": 7}}):
        plan.check_runs("base", make_config("transformer", **values | limits))
    with pytest.raises(JtransError, match=r"training\.learning_rate"):
        plan.check_runs("base", make_config("transformer", **values, learning_rate=0.5))


@pytest.mark.parametrize("name", ["cosine", "wsd"])
def test_runs_keep_the_end_of_a_falling_learning_rate(
    name: str, make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"max_updates": 3, "validate_every": 3}
    values["schedule"] = {"name": name, "warmup": 1}
    config = make_config("transformer", **values)
    plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1,))
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    train_model(plan, "base", config, **options, should_stop=lambda: False)
    plan.check_runs("base", make_config("transformer", **values | {"max_epochs": 9}))
    longer = make_config("transformer", **values | {"max_updates": 6})
    with pytest.raises(JtransError, match=r"training\.max_updates is 6 here, but .* has 3"):
        plan.check_runs("base", longer)


def test_runs_may_go_on_towards_an_end_of_the_learning_rate_that_is_set(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"max_updates": 3, "validate_every": 3}
    values["schedule"] = {"name": "cosine", "warmup": 1, "updates": 6}
    config = make_config("transformer", **values)
    plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1,))
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    train_model(plan, "base", config, **options, should_stop=lambda: False)
    plan.check_runs("base", make_config("transformer", **values | {"max_updates": 6}))


def test_a_lower_limit_that_a_finished_run_does_not_take_is_told(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    ignored = []
    for limit in (2, 2, 1):
        config = make_config("transformer", max_updates=limit, validate_every=1)
        plan = ScalingPlan("mine", config, corpus.folder, tmp_path / "out", 2.0, 1, (1,))
        runs = train_model(plan, "base", config, **options, should_stop=lambda: False)
        assert runs is not None and runs.updates == {1: 2}
        ignored.append(runs.ignored)
    assert ignored == [(), (), ("training.max_updates 2 -> 1",)]


def trained(make_config: MakeConfig, corpus: PreparedCorpus, out: Path) -> tuple[Any, Any, Run]:
    """Return a plan and its base model's configuration and run, which is trained."""
    config = make_config("transformer", max_updates=2, validate_every=1)
    plan = ScalingPlan("mine", config, corpus.folder, out, 2.0, 1, (1,))
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    assert train_model(plan, "base", config, **options, should_stop=lambda: False)
    return plan, config, Run.open(plan.run_folder("base", config, 1))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_run_whose_log_has_lost_validations_gives_no_loss(
    lost: int, make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    """As without power: the checkpoint is there, and the end of the log is not."""
    plan, config, run = trained(make_config, corpus, tmp_path)
    check_log(run)
    validations = [n for n, event in enumerate(run.events()) if event["event"] == "validation"]
    lines = (run.folder / "log.jsonl").read_text("utf-8").splitlines(keepends=True)
    (run.folder / "log.jsonl").write_text("".join(lines[: validations[-lost]]), "utf-8")
    options: dict[str, Any] = {"device": "cpu", "events": TrainingEvents}
    with pytest.raises(WorkError, match=r"has lost the validation of update \d") as caught:
        train_model(plan, "base", config, **options, should_stop=lambda: False)
    assert caught.value.hint == "delete the run: the same command trains it again"


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        ({"from": "elsewhere"}, r"began with the weights of another run \(--from\)"),
        ({"changed": ["training.clip_norm"]}, r"began with another training\.clip_norm"),
    ],
)
def test_a_run_that_began_in_another_way_is_not_of_the_model(
    info: dict[str, Any],
    fault: str,
    make_config: MakeConfig,
    corpus: PreparedCorpus,
    tmp_path: Path,
) -> None:
    plan, config, run = trained(make_config, corpus, tmp_path)
    run.update_info(**info)
    with pytest.raises(JtransError, match=fault):
        plan.check_runs("base", config)


def test_a_damaged_run_is_to_be_deleted(
    make_config: MakeConfig, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    """The command that wrote it has just refused."""
    plan, config, run = trained(make_config, corpus, tmp_path)
    (run.folder / "run.json").write_text("", "utf-8")
    with pytest.raises(JtransError) as caught:
        plan.check_runs("base", config)
    assert "or delete " in str(caught.value.hint) and str(run.folder) in str(caught.value.hint)


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
