"""The random state of a checkpoint is that of the device that trains."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.random_runs import MakeRun
from plugins.small_corpus import MakeConfig
from torch import Tensor

from jtrans.data.prepared import PreparedCorpus
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.runs import Run
from jtrans.training import checkpoint
from jtrans.training.checkpoint import load_checkpoint
from jtrans.training.divergence.random_state import random_module
from jtrans.training.optimisation.optimiser import make_optimiser
from jtrans.training.saving import snapshot
from jtrans.training.saving.snapshot import Snapshot
from jtrans.training.setup.build import make_trainer
from jtrans.training.state import TrainingState


class Generators:
    """The random states of several accelerators that are not here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: dict[torch.device, int] = {}
        for module in (checkpoint, snapshot):
            monkeypatch.setattr(module, "random_module", lambda _: self)

    def get_rng_state(self, device: torch.device) -> Tensor:
        return torch.tensor([self.states.get(device, 0)], dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: Any = "current") -> None:
        self.states[device] = int(state)


@pytest.fixture
def generators(monkeypatch: pytest.MonkeyPatch) -> Generators:
    return Generators(monkeypatch)


def on(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TranslationModel, "device", property(lambda _: device))


@pytest.mark.parametrize("name", ["cuda:0", "cuda:1", "mps"])
def test_the_state_of_the_device_used_is_saved_and_restored(
    make_run: MakeRun, generators: Generators, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    device = torch.device(name)
    other = torch.device("cuda:2")
    run, model, optimiser = _training(make_run())
    on(device, monkeypatch)
    generators.states = {device: 7, other: 9}
    Snapshot.of(model, optimiser, TrainingState(update=20)).write(run)
    generators.states = {device: 1, other: 2}
    load_checkpoint(run.checkpoint("20"), model, optimiser)
    assert generators.states == {device: 7, other: 2}


def test_another_kind_of_device_keeps_its_state(
    make_run: MakeRun, generators: Generators, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, model, optimiser = _training(make_run())
    on(torch.device("cuda:1"), monkeypatch)
    Snapshot.of(model, optimiser, TrainingState(update=20)).write(run)
    on(torch.device("mps"), monkeypatch)
    load_checkpoint(run.checkpoint("20"), model, optimiser)
    assert generators.states == {}


def test_pythons_generator_is_saved_and_restored(make_run: MakeRun) -> None:
    """Systems of other distributions may draw from it."""
    run, model, optimiser = _training(make_run())
    Snapshot.of(model, optimiser, TrainingState(update=20)).write(run)
    expected = random.random()
    load_checkpoint(run.checkpoint("20"), model, optimiser)
    assert random.random() == expected


def test_training_seeds_pythons_generator(corpus: PreparedCorpus, make_config: MakeConfig) -> None:
    draws = []
    for _ in range(2):
        make_trainer(Run(Path("never")), make_config(), corpus)
        draws.append(random.random())
    assert draws[0] == draws[1]


def test_each_kind_of_accelerator_has_its_generator() -> None:
    kinds = ("cpu", "cuda:1", "mps")
    modules = [random_module(torch.device(kind)) for kind in kinds]
    assert modules == [None, torch.cuda, torch.mps]


def _training(folder: Path) -> tuple[Run, TranslationModel, torch.optim.Optimizer]:
    run = Run.open(folder)
    config = run.config(system_configs())
    model = build_model(config.model, *run.pipeline.vocabulary_sizes)
    load_weights(model, run.checkpoint("last").weights)
    return run, model, make_optimiser(model, config.training)
