import errno
import json
import math
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from plugins.training_runs import CrashError, CrashingEvents, last_files

from jtrans.config import Config
from jtrans.data.batch import collate
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import WorkError
from jtrans.runs import Run
from jtrans.training import micro_batches as micro_batches_module
from jtrans.training import trainer as trainer_module
from jtrans.training.events import Advance, Result, TrainingEvents, Validation
from jtrans.training.gradient import UpdateGradient
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer


class Recorder(TrainingEvents):
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.advances: list[Advance] = []
        self.rows: list[Validation] = []
        self.result: Result | None = None

    def update(self, advance: Advance) -> None:
        self.advances.append(advance)

    def validation(self, validation: Validation) -> None:
        self.rows.append(validation)

    def end(self, result: Result) -> None:
        self.result = result


def stop_after(calls: int) -> Any:
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == calls

    return should_stop


def names(run: Path) -> list[str]:
    return [checkpoint.name for checkpoint in Run(run).checkpoints()]


def what_was_learnt(run: Path) -> list[dict[str, Any]]:
    """The logged events without what depends on the clock."""
    clock = {"seconds", "processor_seconds", "tokens_per_second", "positions_per_second"}
    return [
        {key: value for key, value in event.items() if key not in clock}
        for event in Run(run).events()
        if event["event"] in ("train", "validation")
    ]


@pytest.fixture
def frequent_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 5)


@pytest.fixture(scope="module")
def undisturbed(
    corpus: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Config], Path]:
    """Return a function that trains a configuration in one go, once for all tests."""
    folders: dict[str, Path] = {}

    def run(config: Config) -> Path:
        settings = config.to_toml()
        if settings not in folders:
            folders[settings] = tmp_path_factory.mktemp("whole") / "run"
            train(config, data=corpus.folder, run=folders[settings])
        return folders[settings]

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("system", "crash_at"), [("transformer", 1), ("transformer", 14), ("reformer-fast", 7)]
)
@pytest.mark.usefixtures("frequent_log")
def test_a_crashed_run_continues_as_if_nothing_had_happened(
    system: str,
    crash_at: int,
    corpus: PreparedCorpus,
    make_config: Any,
    undisturbed: Callable[[Config], Path],
    tmp_path: Path,
) -> None:
    config = make_config(system, max_updates=17, validate_every=4, micro_batch_tokens=30)
    whole, broken = undisturbed(config), tmp_path / "broken"
    with pytest.raises(CrashError):
        train(config, data=corpus.folder, run=broken, events=CrashingEvents(crash_at))
    result = train(config, data=corpus.folder, run=broken)
    assert (result.update, result.reason) == (17, "max_updates")
    assert last_files(broken) == last_files(whole)
    assert what_was_learnt(broken) == what_was_learnt(whole)
    assert Run(broken).pointers() == Run(whole).pointers()


@pytest.mark.sample(2)
@pytest.mark.parametrize("calls", [3, 11, 12, 13])  # while training, and while validating
@pytest.mark.usefixtures("frequent_log")
def test_a_stopped_run_continues_as_if_nothing_had_happened(
    calls: int,
    corpus: PreparedCorpus,
    make_config: Any,
    undisturbed: Callable[[Config], Path],
    tmp_path: Path,
) -> None:
    config = make_config(max_epochs=2, batch_tokens=100)
    whole, stopped = undisturbed(config), tmp_path / "stopped"
    first = train(config, data=corpus.folder, run=stopped, should_stop=stop_after(calls))
    assert first.reason == "stopped"
    assert Run(stopped).checkpoint("last").update == first.update
    second = train(config, data=corpus.folder, run=stopped)
    assert second.reason == "max_epochs"
    assert last_files(stopped) == last_files(whole)
    assert what_was_learnt(stopped) == what_was_learnt(whole)


def test_the_gradient_of_a_split_update_is_that_of_the_whole(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(model={"dropout": 0.0}, batch_tokens=10_000)
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
    trainer.model.double()
    (whole,) = trainer.plan.epoch(0)
    parts = [whole[0][start : start + 7] for start in range(0, whole[0].size, 7)]
    loss = trainer.accumulate(whole)
    expected = [parameter.grad for parameter in trainer.model.parameters()]
    trainer.optimiser.zero_grad()
    torch.testing.assert_close(trainer.accumulate(parts), loss)
    for parameter, gradient in zip(trainer.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-12)


def test_the_gradient_is_clipped_to_the_norm(corpus: PreparedCorpus, make_config: Any) -> None:
    def change(clip_norm: float, rate: float) -> float:
        config = make_config(clip_norm=clip_norm)
        trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
        trainer.step.optimiser = torch.optim.SGD(trainer.model.parameters())
        before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
        update = trainer.plan.epoch(0)[0]
        trainer.accumulate(update)
        norm = float(trainer.step(rate)[0])
        pairs = zip(before, trainer.model.parameters(), strict=True)
        moved = math.sqrt(sum(float((old - new.detach()).square().sum()) for old, new in pairs))
        return moved / rate if clip_norm else moved / rate / norm

    assert change(0.01, rate=1.0) == pytest.approx(0.01, rel=1e-3)
    assert change(0.0, rate=1.0) == pytest.approx(1.0, rel=1e-3)


def test_every_update_has_the_rate_of_its_number(corpus: PreparedCorpus, make_config: Any) -> None:
    trainer, _ = make_trainer(Run(Path("never")), make_config(), corpus, events=TrainingEvents())
    for number in range(1, 4):
        trainer.update()
        (group,) = trainer.optimiser.param_groups
        assert group["lr"] == trainer.schedule.rate(number)


def test_weight_decay_is_decoupled(corpus: PreparedCorpus, make_config: Any) -> None:
    config = make_config(weight_decay=0.5)
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    for parameter in trainer.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    trainer.step(0.1)
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old * (1 - 0.1 * 0.5))


def test_training_learns(corpus: PreparedCorpus, make_config: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    config = make_config(model={"dropout": 0.0, "width": 32}, max_epochs=15)
    result = train(config, data=corpus.folder, run=tmp_path / "run", events=recorder)
    assert [row.epoch for row in recorder.rows] == list(range(1, 16))
    assert recorder.rows[-1].valid_loss < 0.8 * recorder.rows[0].valid_loss
    assert recorder.rows[-1].perplexity == pytest.approx(math.exp(recorder.rows[-1].valid_loss))
    assert result.best == {
        "metric": "valid-loss",
        "value": min(row.valid_loss for row in recorder.rows),
        "update": min(recorder.rows, key=lambda row: row.valid_loss).update,
    }
    assert recorder.result == result


def test_validation_loss_is_the_mean_over_all_tokens(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    losses = []
    for budget in (20, 1000):
        config = make_config(batch_tokens=budget, validate_sentences=0)
        trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
        losses.append(trainer.validator(trainer.model)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_validation_loss_is_the_negative_log_probability_of_a_target_token(
    _nouns: Path, make_config: Any
) -> None:
    corpus = PreparedCorpus.open(_nouns)
    config = make_config(validate_sentences=0)
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
    model, pairs = trainer.model, corpus.pairs("valid")
    measured = trainer.validator(model)["loss"]
    assert pairs.source.lengths.sum() != pairs.target.lengths.sum()
    assert model.training  # as before
    batch = collate(pairs, range(len(pairs)))
    hidden = model.eval().decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    logits = model.project(hidden)[batch.target_mask]
    expected = F.cross_entropy(logits, batch.target_out[batch.target_mask])
    assert measured == pytest.approx(expected.item(), rel=1e-5)


def test_bleu_of_a_perfect_translation_is_100(
    corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.decoding.search.trace import Hypothesis
    from jtrans.training import validation

    pairs = corpus.pairs("valid")
    answers = {tuple(pairs.source[i]): pairs.target[i].tolist() for i in range(len(pairs))}

    def perfect(models: Any, sources: Any, *args: Any, **kwargs: Any) -> list[list[Hypothesis]]:
        return [[Hypothesis(answers[tuple(source)], 0.0, 0.0, [])] for source in sources]

    monkeypatch.setattr(validation, "translate_ids", perfect)
    trainer, _ = make_trainer(
        Run(Path("never")), make_config(validate_sentences=20), corpus, events=TrainingEvents()
    )
    assert trainer.validator(trainer.model)["bleu"] == pytest.approx(100.0)


def test_the_last_and_the_best_checkpoints_are_kept(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([5.0, 2.0, 4.0, 3.0, 3.5, 6.0])
    monkeypatch.setattr(
        "jtrans.training.validation.Validator.teacher_forced",
        lambda self, model, progress: {"loss": next(losses), "perplexity": 1.0},
    )
    config = make_config(validate_every=2, validate_sentences=0, keep={"last": 2, "best": 2})
    train(config, data=corpus.folder, run=tmp_path / "run")
    expected = [4, 8, 10, 12]  # 2.0 and 3.0 are best, 10 and 12 last
    assert names(tmp_path / "run") == [f"step-{update:08d}" for update in expected]
    assert Run(tmp_path / "run").checkpoint("best").update == 4
    assert Run(tmp_path / "run").checkpoint("last").update == 12


def test_training_stops_when_nothing_gets_better(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([5.0, 4.0, 4.5, 3.0, 3.5, 3.0, 3.2, 1.0])
    monkeypatch.setattr(
        "jtrans.training.validation.Validator.teacher_forced",
        lambda self, model, progress: {"loss": next(losses), "perplexity": 1.0},
    )
    stop = {"metric": "valid-loss", "patience": 3}
    config = make_config(validate_every=1, validate_sentences=0, stop=stop)
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    assert (result.reason, result.update) == ("patience", 7)


def test_another_metric_of_early_stopping_is_not_compared_with_the_old_best(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    def go_on(metric: str | None, max_updates: int, *, is_stopped: bool = False) -> Result:
        stop = {"metric": metric, "patience": 1} if metric else None
        limits = {"validate_every": 2, "max_updates": max_updates, "stop": stop}
        config = make_config(validate_sentences=2, **limits)
        return train(
            config, data=corpus.folder, run=tmp_path / "run", should_stop=lambda: is_stopped
        )

    loss = go_on("valid-loss", 2).validation["loss"]
    assert go_on(None, 8, is_stopped=True).reason == "stopped"  # before any validation
    result = go_on("valid-bleu", 8)
    assert result.validation["bleu"] < loss  # the losses are no values that a BLEU has to beat
    assert result.update > 4


def test_training_ends_when_its_time_is_used_up(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=None, max_minutes=1e-9, validate_sentences=0)
    recorder = Recorder()
    result = train(config, data=corpus.folder, run=tmp_path / "run", events=recorder)
    assert (result.reason, result.update) == ("max_minutes", 1)
    assert [row.update for row in recorder.rows] == [1]


def pretend_time(monkeypatch: pytest.MonkeyPatch, validations: Iterator[float]) -> None:
    """Let each update take one second, and each validation the next of `validations`."""
    seconds = 0.0
    accumulate = UpdateGradient.accumulate

    def update(self: UpdateGradient, *parts: Any) -> Any:
        nonlocal seconds
        seconds += 1.0
        return accumulate(self, *parts)

    def validate(*_: Any) -> dict[str, float]:
        nonlocal seconds
        seconds += next(validations)
        return {"loss": 1.0, "perplexity": 1.0}

    monkeypatch.setattr("jtrans.training.distributed.ranks.Ranks.now", lambda self: seconds)
    monkeypatch.setattr(UpdateGradient, "accumulate", update)
    monkeypatch.setattr("jtrans.training.validation.Validator.teacher_forced", validate)


def test_the_last_validation_is_within_the_time(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update takes 1 s here, and a validation 10 s: the second ends after 44 s."""
    pretend_time(monkeypatch, repeat(10.0))
    limits = {"max_updates": None, "validate_every": 12, "validate_sentences": 0}
    for minutes, updates in ((1.0, 30), (1.2, 32)):  # continued with room for two updates more
        config = make_config(**limits, max_minutes=minutes)
        result = train(config, data=corpus.folder, run=tmp_path / "run")
        assert (result.reason, result.update) == ("max_minutes", updates)
        assert result.seconds == 60.0 * minutes


def test_a_fast_last_validation_leaves_the_run_finished(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A validation takes 20 s, the last one 2 s: 18 s are left that another start must not use."""
    pretend_time(monkeypatch, iter([20.0, 2.0]))
    limits = {"max_updates": None, "validate_every": 12, "validate_sentences": 0}
    config = make_config(**limits, max_minutes=1.0)
    for is_first in (True, False):
        result = train(config, data=corpus.folder, run=tmp_path / "run")
        assert (result.reason, result.update, result.trained) == ("max_minutes", 20, is_first)


def test_a_finished_run_stays_as_it_is(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=3)
    run = tmp_path / "run"
    train(config, data=corpus.folder, run=run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    result = train(config, data=corpus.folder, run=run)
    assert not result.trained
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_higher_limit_continues(corpus: PreparedCorpus, make_config: Any, tmp_path: Path) -> None:
    train(make_config(max_updates=3), data=corpus.folder, run=tmp_path / "run")
    result = train(make_config(max_updates=5), data=corpus.folder, run=tmp_path / "run")
    assert (result.update, result.trained) == (5, True)
    text = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert "max_updates = 5" in text


def test_a_resume_point_is_saved_now_and_then_and_removed_when_old(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "SAVE_EVERY_SECONDS", 0.0)
    run, config = tmp_path / "run", make_config(validate_every=2, validate_sentences=0)
    with pytest.raises(CrashError):
        train(config, data=corpus.folder, run=run, events=CrashingEvents(6))
    assert names(run) == [f"step-{update:08d}" for update in (2, 4, 5)]  # 2 and 4: validated
    assert train(config, data=corpus.folder, run=run).update == 12


@pytest.mark.thorough
def test_divergence_is_reported_with_its_update(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(learning_rate=1e30, schedule={"name": "constant"}, clip_norm=0)
    with pytest.raises(WorkError, match=r"diverged.*(inf|nan) at update [67]") as caught:
        train(config, data=corpus.folder, run=tmp_path / "run")
    assert caught.value.kind == "work.diverged"
    assert caught.value.exit_code == 1
    assert caught.value.hint is not None and "learning_rate" in caught.value.hint
    assert names(tmp_path / "run") == ["step-00000000"]  # to which it went back


class Spoil(TrainingEvents):
    """Makes weights infinite after an update, as a rate far too high does."""

    def __init__(self, update: int, value: float) -> None:
        self.at, self.value = update, value
        self.trainer: Any = None

    def update(self, advance: Advance) -> None:
        if advance.update == self.at:
            for parameter in self.trainer.model.parameters():
                parameter.data.fill_(self.value)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("system", "at", "value"),  # in an update, before a validation
    [
        ("transformer", 5, math.nan),
        ("transformer", 6, math.inf),
        ("reformer-base", 5, math.inf),
        ("reformer-base", 6, math.nan),
    ],
)
def test_divergence_keeps_the_last_good_checkpoint(
    value: float, at: int, system: str, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(system, validate_every=3, validate_sentences=20)
    run, events = tmp_path / "run", Spoil(at, value)
    train(make_config(system, validate_every=3, max_updates=3), data=corpus.folder, run=run)
    good = last_files(run)
    trainer, _ = make_trainer(Run(run), config, corpus, events=events)
    events.trainer = trainer
    trainer.resume()
    with pytest.raises(WorkError, match=r"diverged.*at update 6") as caught:
        trainer.train()
    assert (caught.value.kind, caught.value.exit_code) == ("work.diverged", 1)
    assert last_files(run) == good


def test_a_stopped_run_saves_no_weights_that_are_not_finite(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    run, events = tmp_path / "run", Spoil(5, math.nan)
    train(make_config(max_updates=3), data=corpus.folder, run=run)
    trainer, _ = make_trainer(
        Run(run), make_config(), corpus, events=events, should_stop=lambda: trainer.state.update > 4
    )
    events.trainer = trainer
    trainer.resume()
    with pytest.raises(WorkError, match=r"tokens\.weight is not finite at update 5"):
        trainer.train()
    assert names(run) == ["step-00000003"]


def test_a_validation_stops_on_request_and_is_done_again(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(max_updates=4, validate_every=2, validate_sentences=20, batch_tokens=60)
    whole, run = tmp_path / "whole", tmp_path / "run"
    train(config, data=corpus.folder, run=whole)
    validating: list[int] = []

    class Watch(TrainingEvents):
        def validating(self, done: int, total: int | None) -> None:
            validating.append(done)

    result = train(
        config,
        data=corpus.folder,
        run=run,
        events=Watch(),
        should_stop=lambda: bool(validating),
    )
    assert (result.reason, result.update, len(validating)) == ("stopped", 2, 1)
    assert validating[0] < 20  # in the middle of the loss
    assert train(config, data=corpus.folder, run=run).reason == "max_updates"
    assert last_files(run) == last_files(whole)
    assert what_was_learnt(run) == what_was_learnt(whole)


def test_a_full_disk_leaves_the_checkpoints_there_are(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    config = make_config(max_updates=6, validate_every=3)
    train(make_config(max_updates=3, validate_every=3), data=corpus.folder, run=run)
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*.*")}

    def full(tensors: Any, path: Path, **_: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(WorkError) as caught:
        patch.setattr("safetensors.torch.save_file", full)
        train(config, data=corpus.folder, run=run)
    assert caught.value.kind == "disk.full"
    after = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*.*")}
    assert {path: after[path] for path in before} == before and len(after) == len(before)
    assert train(config, data=corpus.folder, run=run).update == 6


def test_every_start_and_end_stays_in_the_log(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(make_config(max_updates=3), data=corpus.folder, run=run)
    train(make_config(max_updates=5), data=corpus.folder, run=run)
    with pytest.raises(CrashError):
        train(make_config(max_updates=9), data=corpus.folder, run=run, events=CrashingEvents(7))
    train(make_config(max_updates=9), data=corpus.folder, run=run)
    train(make_config(max_updates=10), data=corpus.folder, run=run)
    logged = [
        (event["event"], event["update"])
        for event in Run(run).events()
        if event["event"] != "train"
    ]
    assert [name for name, _ in logged] == (
        ["start", "validation", "end"] * 2 + ["start"] + ["start", "validation", "end"] * 2
    )
    assert [update for name, update in logged if name == "end"] == [3, 5, 9, 10]


def test_a_run_killed_between_its_last_checkpoint_and_its_last_line_gets_the_line(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config, folder = make_config(max_updates=3), tmp_path / "run"
    train(config, data=corpus.folder, run=folder)
    log = folder / "log.jsonl"
    *lines, end = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(lines), encoding="utf-8")
    for _ in range(2):  # only once
        train(config, data=corpus.folder, run=folder)
        *earlier, last = Run(folder).events()
        assert len(earlier) == len(lines)
        expected = json.loads(end)
        assert (last["event"], last["update"], last["reason"]) == ("end", 3, expected["reason"])
        # as of the checkpoint
        assert 0 < last["processor_seconds"] <= expected["processor_seconds"]


def test_running_out_of_memory_with_one_pair_says_what_needs_less(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(micro_batches_module, "batch_loss", fail)
    with pytest.raises(WorkError, match="Tried to allocate 2 GiB") as caught:
        train(make_config("reformer-fast"), data=corpus.folder, run=tmp_path / "run")
    assert caught.value.kind == "work.memory"
    assert caught.value.hint is not None and "training.recompute=layer" in caught.value.hint


def test_bf16_trains_and_keeps_float32_weights(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors.torch

    monkeypatch.setattr("jtrans.nn.device.has_fast_bf16", lambda _: True)  # else it takes fp32
    result = train(
        make_config(precision="bf16", max_updates=3), data=corpus.folder, run=tmp_path / "run"
    )
    weights = safetensors.torch.load_file(Run(tmp_path / "run").checkpoint("last").weights)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert math.isfinite(result.validation["loss"])


def test_a_processor_without_bf16_trains_in_float32(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.nn.device.cpu_capabilities", lambda: {"avx2": True})
    train(make_config(precision="bf16", max_updates=1), data=corpus.folder, run=tmp_path / "run")
    start = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert json.loads(start)["precision"] == "fp32"


def test_events_tell_rates_and_what_is_left(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    recorder = Recorder()
    train(make_config("reformer-base"), data=corpus.folder, run=tmp_path / "run", events=recorder)
    assert [advance.update for advance in recorder.advances] == list(range(1, 13))
    assert {advance.total for advance in recorder.advances} == {12}
    assert all(advance.tokens_per_second > 0 for advance in recorder.advances)
    assert all(advance.positions_per_second for advance in recorder.advances)
    assert recorder.advances[-1].seconds_left == 0.0


def test_the_log_is_json_with_start_and_end(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    train(make_config(max_updates=50), data=corpus.folder, run=tmp_path / "run")
    lines = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    assert (events[0]["event"], events[-1]["event"]) == ("start", "end")
    logged = next(event for event in events if event["event"] == "train")
    assert logged["update"] == 50
    assert {"loss", "nll", "learning_rate", "gradient_norm", "tokens_per_second"} <= logged.keys()


def test_seeds_differ_and_repeat(corpus: PreparedCorpus, make_config: Any, tmp_path: Path) -> None:
    def weights(seed: int, name: str) -> bytes:
        config: Config = make_config(seed=seed, max_updates=3, validate_sentences=0)
        train(config, data=corpus.folder, run=tmp_path / name)
        return last_files(tmp_path / name)["model.safetensors"]

    first = weights(1, "a")
    assert weights(1, "b") == first
    assert weights(2, "c") != first
