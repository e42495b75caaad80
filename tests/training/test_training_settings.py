"""Settings of training that systems of other papers need (docs/systems.md 0.6, 0.7 and 7.8)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugins.small_corpus import MakeConfig
from plugins.training_runs import CrashError, CrashingEvents

from jtrans.config import load_config
from jtrans.data.batch import collate
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, WorkError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training import trainer as trainer_module
from jtrans.training.distributed import ranks as ranks_module
from jtrans.training.events import TrainingEvents
from jtrans.training.micro_batches import UpdateLoss
from jtrans.training.objective import Objective
from jtrans.training.optimisation.schedule import Schedule
from jtrans.training.optimisation.step import Step
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.setup.checks import check_warmup
from jtrans.training.state import TrainingState
from jtrans.training.stopping import Stopping
from jtrans.training.trainer import Trainer

RNMT = {"name": "rnmt", "replicas": 4, "warmup": 2, "decay_start": 16, "decay_end": 48}
PLATEAU = {"name": "plateau", "factor": 0.5, "floor": 1e-9}
NESTEROV = {"name": "nesterov", "momentum": 0.9}


def make(corpus: PreparedCorpus, config: Any) -> Trainer:
    return make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())[0]


def gradients(trainer: Trainer) -> list[torch.Tensor]:
    present = [p.grad for p in trainer.model.parameters() if p.grad is not None]
    trainer.optimiser.zero_grad()
    return present


@pytest.mark.parametrize("normalise", ["token", "sentence"])
def test_replicas_with_a_share_of_the_batch_give_the_gradient_of_the_whole(
    normalise: str, corpus: PreparedCorpus, make_config: Any
) -> None:
    """N11: the shares may be of different sizes, as the loss is divided once."""
    config = make_config(model={"dropout": 0.0}, batch_tokens=10_000, normalise=normalise)
    trainer = make(corpus, config)
    trainer.model.double()
    (whole,) = trainer.plan.epoch(0)
    divisor = trainer.plan.divisor(whole)
    trainer.accumulate(whole)
    expected = gradients(trainer)
    parts = [whole[0][start::3] for start in range(3)]
    sums = [torch.zeros_like(gradient) for gradient in expected]
    for part in parts:  # every replica by itself, its loss divided by the whole
        trainer.gradient.accumulator.accumulate(UpdateLoss(trainer.pairs, divisor), [part])
        for total, gradient in zip(sums, gradients(trainer), strict=True):
            total += gradient
    for total, gradient in zip(sums, expected, strict=True):
        torch.testing.assert_close(total, gradient, rtol=1e-10, atol=1e-12)


def test_the_loss_of_sentences_is_the_mean_of_their_sums(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    """docs/systems.md 0.6: only the divisor differs."""
    by_token, by_sentence = (
        make(corpus, make_config(model={"dropout": 0.0}, normalise=normalise))
        for normalise in ("token", "sentence")
    )
    update = by_token.plan.epoch(0)[0]
    tokens, sentences = by_token.plan.divisor(update), by_sentence.plan.divisor(update)
    assert (tokens, sentences) == (by_token.plan.tokens(update), sum(map(len, update)))
    losses = [trainer.accumulate(update) for trainer in (by_token, by_sentence)]
    torch.testing.assert_close(*losses)  # what is logged
    for token, sentence in zip(gradients(by_token), gradients(by_sentence), strict=True):
        torch.testing.assert_close(sentence, token * tokens / sentences)


@pytest.mark.parametrize("form", ["all", "others"])
def test_the_loss_is_smoothed_as_the_settings_say(
    form: Any, corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(model={"dropout": 0.0}, label_smoothing=0.3, smoothing_form=form)
    trainer, indices = make(corpus, config), np.arange(5)
    batch, model = collate(trainer.pairs, indices), trainer.model
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    labels = batch.target_out[batch.target_mask]
    expected = Objective(0.3, form)(model.project(hidden)[batch.target_mask], labels)
    torch.testing.assert_close(trainer.accumulate([indices]), torch.stack(expected).detach())


@pytest.mark.parametrize("settings", [{"word_dropout": 0.5}, {"r_drop": 5.0, "cutoff": 0.5}])
def test_a_regulariser_of_the_settings_changes_the_loss(
    settings: dict[str, float], corpus: PreparedCorpus, make_config: Any
) -> None:
    plain, changed = (
        make(corpus, make_config(model={"dropout": 0.0}, **each)).accumulate([np.arange(9)])
        for each in ({}, settings)
    )
    assert not torch.allclose(changed, plain, rtol=1e-3)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "settings",
    [
        {"optimiser": NESTEROV, "schedule": PLATEAU, "clip_norm": 0.1},
        {"gradient_guard": True, "schedule": RNMT, "normalise": "sentence", "l2": 1e-3},
        {"keep": {"window": 3, "last": 1}, "validate_every": 2},
    ],
    ids=["nesterov and plateau", "guard, rnmt, sentences, l2", "window"],
)
def test_a_crashed_run_with_these_settings_continues_as_if_nothing_had_happened(
    settings: dict[str, Any],
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights, the optimiser's state and what the settings remember, bit for bit."""
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 3)
    config = make_config(**{"validate_every": 3, **settings}, max_updates=14)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(config, data=corpus.folder, run=whole)
    with pytest.raises(CrashError):
        train(config, data=corpus.folder, run=broken, events=CrashingEvents(8))
    train(config, data=corpus.folder, run=broken)
    folders = [Run(run).checkpoint("last").folder for run in (whole, broken)]
    for name in ("model.safetensors", "state.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    ours, theirs = (make_trainer(Run(run), config, corpus)[0] for run in (whole, broken))
    for trainer in (ours, theirs):
        trainer.resume()
    for name in ("plateau", "guard", "window", "dropped", "best"):
        assert getattr(ours.state, name) == getattr(theirs.state, name)
    assert Run(whole).pointers() == Run(broken).pointers()
    names = [[each.name for each in Run(run).checkpoints()] for run in (whole, broken)]
    assert names[0] == names[1]


def test_a_plateau_lowers_the_rate_and_ends_training_below_its_floor(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 1)
    schedule = {"name": "plateau", "factor": 0.1, "patience": 1, "floor": 1e-3}
    config = make_config(
        learning_rate=1e6, clip_norm=0.1, optimiser=NESTEROV, schedule=schedule, validate_every=1
    )
    monkeypatch.setattr(
        "jtrans.training.validation.Validator.__call__",
        lambda *_: {"loss": 1.0, "perplexity": 1.0, "bleu": 0.0},
    )
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    events = [event for event in Run(tmp_path / "run").events() if event["event"] == "train"]
    rates = [event["learning_rate"] for event in events]
    assert rates == pytest.approx([1e6, *(10.0**n for n in range(6, -4, -1))])
    assert (result.reason, result.update) == ("floor", 11)


def test_a_plateau_is_one_of_the_loss_with_the_patience_of_the_settings(make_config: Any) -> None:
    schedule = {"name": "plateau", "patience": 2}
    training = make_config(schedule=schedule, best_metric="valid-bleu").training
    stopping, state, drops = (
        Stopping(training, Schedule.from_config(training, 16)),
        TrainingState(),
        [],
    )
    for loss, bleu in ((3.0, 1.0), (2.0, 1.0), (2.5, 2.0), (2.5, 3.0)):
        stopping.judge(state, {"loss": loss, "bleu": bleu})
        drops.append(state.plateau.drops)
    assert drops == [0, 0, 0, 1]


def poison(monkeypatch: pytest.MonkeyPatch, *updates: int) -> None:
    """Make the gradient of some updates, counted from 1, nan."""
    original = Trainer.accumulate

    def accumulate(self: Trainer, micro_batches: Any) -> torch.Tensor:
        losses = original(self, micro_batches)
        if self.state.update + 1 in updates:
            for parameter in self.model.parameters():
                parameter.grad = torch.full_like(parameter, float("nan"))
        return losses

    monkeypatch.setattr(Trainer, "accumulate", accumulate)


def test_with_the_guard_too_an_update_that_is_not_finite_is_skipped(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N10: it counts as skipped, averages stay; the logged loss has no such number."""
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 4)
    poison(monkeypatch, 3, 5)
    config = make_config(gradient_guard=True, max_updates=8)
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    assert (result.update, result.dropped, result.skipped) == (8, 0, 2)
    events = [event for event in Run(tmp_path / "run").events() if event["event"] == "train"]
    assert [event["skipped"] for event in events] == [1, 2]
    assert all(0.0 < event["nll"] < 10.0 and event["gradient_norm"] > 0.0 for event in events)


def test_a_validation_after_skipped_updates_alone_has_no_train_loss(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, 1, 2)
    config = make_config(max_updates=4, validate_every=2)
    train(config, data=corpus.folder, run=tmp_path / "run")
    events = Run(tmp_path / "run").events()
    losses = [event["train_loss"] for event in events if event["event"] == "validation"]
    assert losses[0] is None and losses[1] > 0.0


def test_a_run_in_which_every_update_is_skipped_has_diverged(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 4)
    poison(monkeypatch, *range(3, 20))
    with pytest.raises(WorkError, match="diverged: the norm of the gradient is nan at update 7"):
        train(
            make_config(gradient_guard=True, max_updates=20),
            data=corpus.folder,
            run=tmp_path / "run",
        )


def test_a_validation_follows_the_clock(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every update takes a minute here."""
    seconds, step = [0.0], Step.__call__

    class Clock:
        def monotonic(self) -> float:
            return seconds[0]

    def slow_step(self: Step, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        seconds[0] += 60.0
        return step(self, *arguments)

    monkeypatch.setattr(ranks_module, "time", Clock())
    monkeypatch.setattr(Step, "__call__", slow_step)
    config = make_config(validate_every="3 minutes", max_updates=10, validate_sentences=0)
    train(config, data=corpus.folder, run=tmp_path / "run")
    events = Run(tmp_path / "run").events()
    updates = [event["update"] for event in events if event["event"] == "validation"]
    assert updates == [3, 6, 9, 10]


IMPOSSIBLE = {
    ("weight_decay=1e-4", "l2=1e-5"): "two forms of the same",
    ("optimiser={name='nesterov'}", "weight_decay=0.1"): "weight_decay 0.1 is for adam",
    ("optimiser={name='nesterov', betas=[0.9, 0.98]}",): "betas is a setting of adam, not of nes",
    ("optimiser.momentum=0.9",): "momentum is a setting of nesterov, not of adam",
    ("optimiser={name='nesterov', momentum=1.0}",): "momentum: input should be less than 1",
    ("schedule.replicas=4",): "replicas is a setting of rnmt, not of inverse-sqrt",
    ("schedule={name='rnmt', replicas=0}",): "replicas: input should be greater than 0",
    ("schedule={name='rnmt', decay_start=9, decay_end=9}",): "decay_end 9 must be larger than",
    ("schedule={name='rnmt', factor=0.5}",): "factor is a setting of plateau, not of rnmt",
    ("schedule={name='plateau', factor=1.0}",): "factor: input should be less than 1",
    ("schedule={name='plateau'}", "learning_rate=1e-5"): "learning_rate 1e-05 is below the floor",
    ("normalise=words",): "'token' or 'sentence'",
    ("l2=-1",): "l2: input should be greater than or equal to 0",
    ("validate_every='30 hours'",): "or a time such as '30 minutes' (got '30 hours')",
    ("validate_every='0 minutes'",): "or a time such as '30 minutes' (got '0 minutes')",
    ("keep.window=-1",): "window: input should be greater than or equal to 0",
    ("keep.window=3", "validate_sentences=0"): "validate_sentences is 0",
    ("keep.window=5", "max_updates=100", "validate_every=25"): "window 5 is larger than the number "
    "of validations of this run, 4",
    ("keep.window=5", "max_epochs=4"): "window 5 is larger than the number of validations",
    ("keep.window=5", "max_minutes=100", "validate_every='30 minutes'"): "of this run, 4",
}


@pytest.mark.parametrize(("overrides", "message"), IMPOSSIBLE.items(), ids=map(str, IMPOSSIBLE))
def test_settings_that_cannot_work_are_refused(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        given = [f"training.{override}" for override in overrides]
        load_config("demo/transformer", system_configs(), overrides=given)
    assert message in caught.value.message
    assert "--set" in str(caught.value.where) and caught.value.exit_code == 2


def test_defaults_of_a_named_section_are_written_out() -> None:
    overrides = ["training.schedule={name='rnmt'}", "training.optimiser={name='nesterov'}"]
    training = load_config("demo/transformer", system_configs(), overrides=overrides).training
    assert training.schedule.model_dump(exclude_none=True) == {
        "name": "rnmt",
        "warmup": 500,
        "warmup_init": 1e-7,
        "floor": 1e-9,
        "replicas": 1,
        "decay_start": 400_000,
        "decay_end": 1_200_000,
        "late_start": False,
    }
    assert training.optimiser.model_dump(exclude_none=True) == {
        "name": "nesterov",
        "momentum": 0.99,
    }


def test_another_name_in_a_file_replaces_the_whole_section(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "demo/transformer"\n[training]\n'
        'optimiser = { name = "nesterov" }\nschedule = { name = "rnmt", replicas = 2 }\n',
        encoding="utf-8",
    )
    training = load_config(str(path), system_configs()).training
    assert training.optimiser.betas is None and training.optimiser.momentum == 0.99
    assert (training.schedule.warmup, training.schedule.replicas) == (500, 2)


@pytest.mark.parametrize(
    ("then", "best", "stale"),
    [
        ("valid-chrf", 50.0, 1),
        (None, None, 0),
        ("valid-loss", None, 0),  # switched off and on before any validation
    ],
)
def test_early_stopping_that_is_switched_off_or_has_another_metric_counts_anew(
    make_config: Any, then: str | None, best: float | None, stale: int
) -> None:
    state = TrainingState()
    for metric, values in (("valid-chrf", (50.0, 40.0)), (then, ())):
        training = make_config(stop={"metric": metric} if metric else None, max_epochs=9).training
        stopping = Stopping(training, Schedule.from_config(training, 16))
        stopping.resume(state)
        for chrf in values:
            stopping.judge(state, {"loss": 2.0, "bleu": 30.0, "chrf": chrf})
    assert (state.stop_best, state.stale, state.stop_metric) == (best, stale, then)


def test_after_a_return_the_next_validation_in_minutes_is_as_far_off_as_before(
    make_config: Any,
) -> None:
    training = make_config(validate_every="30 minutes", max_minutes=900).training
    stopping = Stopping(training, Schedule.from_config(training, 16))
    kept = TrainingState(update=10, seconds=2000.0, validated=5, validated_seconds=1800.0)
    lost = TrainingState(
        update=30, seconds=3700.0, validated=25, validated_seconds=3601.0, validation_seconds=60.0
    )
    kept.go_back(lost, 1e-3, "a loss that is not finite")
    kept.update += 1
    assert not stopping.is_validation_due(kept)
    kept.seconds += 1600.0
    assert stopping.is_validation_due(kept)
    assert kept.validation_seconds == 60.0


def test_after_a_return_the_splits_and_the_time_of_what_is_lost_count() -> None:
    kept, lost = TrainingState(update=10, seconds=2.0), TrainingState(update=30, seconds=3.0)
    lost.splits, lost.processor_seconds = 4, 6.0
    event = kept.go_back(lost, 1e-3, "a loss that is not finite")
    assert (kept.splits, kept.seconds, kept.processor_seconds) == (4, 3.0, 6.0)
    assert (event.update, event.lost) == (10, 20)


def test_what_is_left_of_training_does_not_count_what_is_done(make_config: Any) -> None:
    training = make_config(max_epochs=3, max_updates=None, max_minutes=2).training
    stopping = Stopping(training, Schedule.from_config(training, 16))
    state = TrainingState(update=25, epoch=2, position=5, seconds=90.0)
    assert stopping.total_updates(state, updates_per_epoch=10) == 30
    assert stopping.seconds_left(state, 30, 4.0) == 20.0
    assert stopping.seconds_left(state, None, 4.0) == 30.0


def test_the_last_update_is_the_last_with_a_rate_above_0(make_config: Any) -> None:
    schedule = {"name": "cosine", "warmup": 2, "updates": 10}
    training = make_config(schedule=schedule, max_updates=99).training
    stopping = Stopping(training, Schedule.from_config(training, 16))
    reached = [stopping.reached(TrainingState(update=update)) for update in (9, 10)]
    assert reached == [None, "floor"]


def test_a_count_of_an_earlier_version_goes_on(make_config: Any) -> None:
    state = TrainingState(stop_best=50.0, stale=1)  # without its metric
    training = make_config(stop={"metric": "valid-chrf"}, max_epochs=9).training
    Stopping(training, Schedule.from_config(training, 16)).resume(state)
    assert (state.stop_best, state.stale) == (50.0, 1)


@pytest.mark.parametrize(
    ("schedule", "warmup"),
    [
        ({"name": "noam", "warmup": 100}, 4),
        ({"name": "cosine", "warmup": 50, "updates": 1000}, 4),
        ({"name": "rnmt", "warmup": 5, "replicas": 8, "decay_start": 1, "decay_end": 9}, 1),
        ({"name": "rnmt", "warmup": 5, "replicas": 1, "decay_start": 1, "decay_end": 9}, None),
        ({"name": "inverse-sqrt", "warmup": 39}, None),
        ({"name": "constant"}, None),
    ],
)
def test_a_training_that_ends_within_the_warm_up_is_told_a_shorter_one(
    make_config: MakeConfig, schedule: dict[str, Any], warmup: int | None
) -> None:
    config = make_config(schedule=schedule, max_updates=40)
    made = Schedule(config.training.schedule, config.training.learning_rate, config.model.width)
    told = check_warmup(made, 40)
    assert [f"schedule.warmup={warmup})" in text for text in told] == [True] * (warmup is not None)
    assert not check_warmup(made, None)
