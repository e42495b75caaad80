"""Checkpoints that are written beside training: their bytes, their faults, and a process killed."""

import errno
import multiprocessing
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError, WorkError
from jtrans.models.zoo import build_model
from jtrans.runs import Run, checkpoint_folder
from jtrans.training import trainer as trainer_module
from jtrans.training.checkpoint import load_checkpoint
from jtrans.training.events import Advance, TrainingEvents
from jtrans.training.optimisation.optimiser import make_optimiser
from jtrans.training.saving import writer as writer_module
from jtrans.training.saving.snapshot import Snapshot
from jtrans.training.session import train
from jtrans.training.state import TrainingState
from jtrans.training.validation import Validator


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def bytes_without_times(folder: Path) -> dict[str, bytes]:
    files = contents(folder)
    return {name: files[name] for name in ("model.safetensors", "state.safetensors")}


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_a_copy_is_written_as_the_model_itself_and_does_not_change_with_it(
    tie: str, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(model={"tie": tie})
    model = build_model(config.model, 11, 11)
    optimiser = make_optimiser(model, config.training)
    torch.stack([parameter.sum() for parameter in model.parameters()]).sum().backward()
    optimiser.step()
    state = TrainingState(update=3)
    copied = Snapshot.of(model, optimiser, state, fits=lambda size: True)
    Snapshot.of(model, optimiser, state).write(Run(tmp_path / "direct"))
    optimiser.step()
    torch.rand(1)
    state.update = 4
    copied.write(Run(tmp_path / "copied"))
    folders = [Run(tmp_path / name).checkpoint("3").folder for name in ("direct", "copied")]
    assert contents(folders[0]) == contents(folders[1])


def test_the_same_weights_are_the_same_bytes(make_config: Any, tmp_path: Path) -> None:
    """The library writes the names of tied weights in any order."""
    config = make_config(model={"tie": "all"})
    model = build_model(config.model, 11, 11)
    snapshot = Snapshot.of(model, make_optimiser(model, config.training), TrainingState(update=3))
    runs = [Run(tmp_path / str(number)) for number in range(8)]
    for run in runs:
        snapshot.write(run)
    assert len({run.checkpoint("3").weights.read_bytes() for run in runs}) == 1


def test_moments_that_a_checkpoint_lacks_start_at_0(make_config: Any, tmp_path: Path) -> None:
    """As one saved after nothing but skipped updates, to which training may go back."""
    config, run = make_config(), Run(tmp_path / "run")
    model = build_model(config.model, 11, 11)
    optimiser = make_optimiser(model, config.training)
    Snapshot.of(model, optimiser, TrainingState(update=3)).write(run)
    torch.stack([parameter.sum() for parameter in model.parameters()]).sum().backward()
    optimiser.step()
    load_checkpoint(run.checkpoint("3"), model, optimiser)
    moments = [value for values in optimiser.state.values() for value in values.values()]
    assert moments and not any(value.any() for value in moments)


@pytest.mark.parametrize("fits", [True, False])
def test_a_run_has_the_same_bytes_whether_memory_has_room_for_copies_or_not(
    fits: bool,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = make_config(validate_every=4, max_updates=9, ema_decay=0.9)
    train(config, data=corpus.folder, run=tmp_path / "usual")
    monkeypatch.setattr(writer_module, "fits_as_copy", lambda size: fits)
    train(config, data=corpus.folder, run=tmp_path / "run")
    run, usual = Run(tmp_path / "run"), Run(tmp_path / "usual")
    assert run.pointers() == usual.pointers()
    for one, other in zip(run.checkpoints(), usual.checkpoints(), strict=True):
        assert bytes_without_times(one.folder) == bytes_without_times(other.folder)


def test_training_goes_on_while_a_checkpoint_is_written(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, done = threading.Event(), list[int]()
    original = safetensors.torch.save_file

    def slow(*arguments: Any, **options: Any) -> None:
        assert may_write.wait(60.0)
        original(*arguments, **options)

    class Release(TrainingEvents):
        def update(self, advance: Advance) -> None:
            if advance.update == 5:  # two updates after the validation
                done.extend(each.update or 0 for each in Run(tmp_path / "run").checkpoints())
                may_write.set()

    monkeypatch.setattr(safetensors.torch, "save_file", slow)
    config = make_config(validate_every=3, max_updates=6)
    train(config, data=corpus.folder, run=tmp_path / "run", events=Release())
    assert done == []
    assert [each.update for each in Run(tmp_path / "run").checkpoints()] == [3, 6]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, "disk.full"), (errno.EROFS, None)])
def test_a_fault_of_writing_ends_training_at_the_next_save(
    number: int,
    kind: str | None,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = 0

    class Watch(TrainingEvents):
        def update(self, advance: Advance) -> None:
            nonlocal reached
            reached = advance.update

    def full(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    config = make_config(validate_every=3, max_updates=30)
    with monkeypatch.context() as patch, pytest.raises(JtransError) as caught:
        patch.setattr(safetensors.torch, "save_file", full)
        train(config, data=corpus.folder, run=tmp_path / "run", events=Watch())
    assert caught.value.kind == (kind or "disk.read-only")
    assert reached == 6
    end = Run(tmp_path / "run").events()[-1]
    assert (end["reason"], end["fault"]) == ("failed", caught.value.message)
    assert Run(tmp_path / "run").checkpoints() == []
    assert train(config, data=corpus.folder, run=tmp_path / "run").update == 30


def test_a_disk_that_was_full_for_a_while_costs_one_checkpoint(
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original, calls = safetensors.torch.save_file, 0

    def full_once(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(*arguments, **options)

    monkeypatch.setattr(safetensors.torch, "save_file", full_once)
    config = make_config(validate_every=3, max_updates=9)
    assert train(config, data=corpus.folder, run=tmp_path / "run").update == 9
    assert [each.update for each in Run(tmp_path / "run").checkpoints()] == [6, 9]
    assert "the checkpoint before this one is lost: the disk is full" in caplog.text


def test_a_lost_checkpoint_is_not_the_best(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = Snapshot.write, 0

    def lose_second(snapshot: Snapshot, run: Run) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise WorkError("no room", kind="disk.full")
        original(snapshot, run)

    losses = iter([5.0, 1.0, 6.0])
    validate = Validator.__call__
    monkeypatch.setattr(Snapshot, "write", lose_second)
    monkeypatch.setattr(
        Validator,
        "__call__",
        lambda self, *arguments: validate(self, *arguments) | {"loss": next(losses)},
    )
    config = make_config(validate_every=3, max_updates=9)
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    run = Run(tmp_path / "run")
    assert 6 not in [each.update for each in run.checkpoints()]
    assert run.pointers()["best"] == run.checkpoint("best").name == "step-00000003"
    assert result.best is not None and result.best["update"] == 3


@pytest.mark.parametrize("validate_every", [3, 50], ids=["checkpoint", "log"])
def test_a_run_whose_folder_vanishes_ends_and_says_so(
    validate_every: int,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 4)
    config, run = make_config(max_updates=6, validate_every=validate_every), tmp_path / "run"

    def should_stop() -> bool:
        if run.exists():
            run.rename(tmp_path / "elsewhere")
        return False

    with pytest.raises(WorkError, match="the folder of the run has vanished"):
        train(config, data=corpus.folder, run=run, should_stop=should_stop)
    assert not run.exists()


def test_the_fault_that_ends_training_hides_that_of_writing(
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fail(TrainingEvents):
        def update(self, advance: Advance) -> None:
            if advance.update == 4:
                raise WorkError("something else")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(WorkError, match="something else"):
        config = make_config(validate_every=3)
        train(config, data=corpus.folder, run=tmp_path / "run", events=Fail())
    assert "the last checkpoint is lost: the disk is full" in caplog.text


def die_in_call(number: int, owner: Any, name: str) -> None:
    """Kill this process when it calls a function for the `number`-th time."""
    original, calls = getattr(owner, name), iter(range(1, 10_000))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(owner, name, call)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("number", "owner", "name"),
    [
        (3, safetensors.torch, "save_model"),
        (8, checkpoint_folder, "file_digest"),
        (3, Run, "set_pointers"),
        (1, Run, "remove_checkpoint"),
    ],
)
def test_a_process_killed_while_it_writes_leaves_a_run_that_continues(
    number: int, owner: Any, name: str, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every=2, max_updates=12, keep={"last": 2, "best": 1})
    run, whole = tmp_path / "run", tmp_path / "whole"

    def train_and_die() -> None:
        die_in_call(number, owner, name)
        train(config, data=corpus.folder, run=run)

    process = multiprocessing.get_context("fork").Process(target=train_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    Run(run).checkpoint("best").verify("model.safetensors")
    train(config, data=corpus.folder, run=whole)
    train(config, data=corpus.folder, run=run)
    last = [Run(each).checkpoint("last").folder for each in (run, whole)]
    assert bytes_without_times(last[0]) == bytes_without_times(last[1])
    assert list((run / "checkpoints").glob(".*")) == []


def test_a_checkpoint_by_the_clock_stays(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "SAVE_EVERY_SECONDS", 0.0)
    keep = {"last": 1, "best": 1, "every_hours": 1e-9}
    train(make_config(max_updates=5, keep=keep), data=corpus.folder, run=tmp_path / "run")
    assert [each.update for each in Run(tmp_path / "run").checkpoints()] == [1, 2, 3, 4, 5]
