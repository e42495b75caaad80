import errno
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, WorkError
from jtrans.runs import Run
from jtrans.training import tensorboard, trainer
from jtrans.training.session import train


@pytest.mark.skipif(util.find_spec("tensorboard") is None, reason="needs tensorboard")
def test_tensorboard_shows_the_numbers_of_the_log_once_also_after_an_interruption(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(trainer, "LOG_EVERY", 2)
    config = make_config(max_updates=6, validate_every=3)
    calls = iter(range(100))
    for stop in (4, 100):
        train(
            config,
            data=corpus.folder,
            run=tmp_path / "run",
            tensorboard=True,
            should_stop=lambda stop=stop: next(calls) == stop,  # type: ignore[misc]
        )
    run = Run(tmp_path / "run")
    curves = EventAccumulator(str(run.tensorboard_folder)).Reload()
    for event, name, tag in (
        ("train", "loss", "train/loss"),
        ("train", "learning_rate", "train/learning_rate"),
        ("validation", "valid_loss", "valid/loss"),
        ("validation", "bleu", "valid/bleu"),
    ):
        logged = [(e["update"], e[name]) for e in run.events() if e["event"] == event]
        shown = [(point.step, point.value) for point in curves.Scalars(tag)]
        assert shown == [(update, pytest.approx(value, rel=1e-6)) for update, value in logged]
    (last,) = [e["samples"][0] for e in run.events() if e["event"] == "validation"][-1:]
    shown_last = curves.Tensors("valid/sample_0/text_summary")[-1]
    text = shown_last.tensor_proto.string_val[0].decode()
    assert shown_last.step == 6 and all(sentence in text for sentence in last.values())


def test_without_the_package_nothing_is_started(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="not installed"):
        train(make_config(), data=corpus.folder, run=tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    class Full:
        def add_scalar(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")  # without a name of a file

    board = tensorboard.TensorBoard.__new__(tensorboard.TensorBoard)
    full: Any = Full()
    board._folder, board._writer = tmp_path / "curves", full
    with pytest.raises(WorkError, match=r"the disk is full: .*curves"):
        board.add("train", 1, {"loss": 2.0})
