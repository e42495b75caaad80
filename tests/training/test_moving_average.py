from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training.events import TrainingEvents
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.weights.moving_average import MovingAverage


def test_the_average_is_its_recursion() -> None:
    model = nn.Linear(2, 2)
    average = MovingAverage(model, 0.5)
    expected = model.weight.detach().clone()
    for update in range(1, 30):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 2))
        average.update(update, torch.tensor(update % 7 == 3))
        if update % 7 == 3:
            continue  # it was dropped
        decay = min(0.5, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    trained = model.weight.detach().clone()
    with average.in_place() as weights:
        assert torch.allclose(model.weight, expected)
        assert torch.equal(weights["weight"], trained)
    assert torch.equal(model.weight, trained)


def test_the_weights_come_back_after_an_error() -> None:
    model = nn.Linear(2, 2)
    average = MovingAverage(model, 0.5)
    trained = model.weight.detach().clone() + 1
    with torch.no_grad():
        model.weight.copy_(trained)
    with pytest.raises(KeyError), average.in_place():
        raise KeyError
    assert torch.equal(model.weight, trained)


def test_the_first_update_of_a_training_moves_the_average_nine_elevenths_of_the_way(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(ema_decay=0.9)
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
    before = [weight.detach().clone() for weight in trainer.parameters]
    trainer.update()
    after = [weight.detach().clone() for weight in trainer.parameters]
    assert trainer.average is not None
    with trainer.average.in_place():
        for old, new, averaged in zip(before, after, trainer.parameters, strict=True):
            torch.testing.assert_close(averaged.detach(), old + (new - old) * 9 / 11)


def test_a_checkpoint_holds_the_average_and_the_weights_it_is_of(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=6, ema_decay=0.9, validate_sentences=0)
    train(config, data=corpus.folder, run=tmp_path / "run")
    run = Run(tmp_path / "run")
    folder = run.checkpoint("last").folder
    averaged = load_file(folder / "model.safetensors")
    state = load_file(folder / "state.safetensors")
    trainer, _ = make_trainer(run, config, corpus, events=TrainingEvents())
    trainer.resume()
    for name, weight in trainer.model.named_parameters():
        assert torch.equal(weight, state[f"trained.{name}"])
        assert name not in averaged or not torch.equal(weight, averaged[name])
    assert trainer.average is not None
    with trainer.average.in_place():  # which was validated
        assert trainer.validator(trainer.model) == pytest.approx(trainer.state.validation)


def test_a_run_can_begin_and_give_up_a_moving_average(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    for updates, decay in ((3, 0.0), (6, 0.9), (8, 0.0)):
        config = make_config(max_updates=updates, ema_decay=decay)
        assert train(config, data=corpus.folder, run=tmp_path / "run").update == updates
    state = load_file(Run(tmp_path / "run").checkpoint("last").folder / "state.safetensors")
    assert not any(name.startswith("trained.") for name in state)
