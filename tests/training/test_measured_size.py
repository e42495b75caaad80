"""Where sizes are open, a new run measures which micro-batches fit; the updates stay the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training import micro_batches
from jtrans.training.captured.gradients import CapturedGradients
from jtrans.training.events import Start, TrainingEvents
from jtrans.training.feeding import size
from jtrans.training.feeding.size import Trial, chosen_size, largest_size
from jtrans.training.objective import batch_loss
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.updates import UpdatePlan

SENTENCES_THAT_FIT = 5


class Watched(TrainingEvents):
    def __init__(self) -> None:
        self.measured = 0
        self.sizes: list[str] = []

    def measuring(self) -> None:
        self.measured += 1

    def start(self, start: Start) -> None:
        self.sizes.append(start.micro_batch)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    """Let tiny micro-batches be worth a measurement, in a cache of the test."""
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(size, "SMALLEST", {"cpu": {True: 8, False: 8}})
    monkeypatch.setattr(size, "FEWEST_UPDATES", 2)
    monkeypatch.setattr(size, "TIMED_SECONDS", 1e-9)
    monkeypatch.setattr(size, "FASTER", 1e9)  # chance does not decide: the largest that fits
    return Watched()


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let larger micro-batches than of some sentences fail."""

    def loss(model: Any, batch: Any, *rest: Any) -> Any:
        if len(batch.source) > SENTENCES_THAT_FIT:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch_loss(model, batch, *rest)

    monkeypatch.setattr(micro_batches, "batch_loss", loss)


def measure(config: Config, corpus: PreparedCorpus, events: TrainingEvents) -> int | None:
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, device="cpu", events=events)
    return largest_size(trainer, config)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([Trial(10, 1.0), Trial(20, 1.0), Trial(40, 1.1)], None),  # whole: not clearly slower
        ([Trial(10, 1.0), Trial(20, 1.1), Trial(40, 1.2)], 20),
        ([Trial(10, 1.0), Trial(20, 0.5)], 20),  # the next does not fit
        ([Trial(10, 0.0)], 10),
    ],
)
def test_the_largest_size_is_taken_unless_a_smaller_one_is_clearly_faster(
    trials: list[Trial], expected: int | None
) -> None:
    assert chosen_size(trials, 40) == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(largest=st.integers(1, 300), is_joint=st.booleans(), tokens=st.integers(20, 200))
def test_the_size_changes_no_update(
    corpus: PreparedCorpus, make_config: Any, largest: int, is_joint: bool, tokens: int
) -> None:
    pairs = corpus.pairs("train")
    training = make_config(batch_tokens=tokens, micro_batch_joint=500).training
    whole = UpdatePlan(pairs, training, is_joint=is_joint).epoch(1)
    plan = UpdatePlan(pairs, training, is_joint=is_joint, largest=largest)
    parts = plan.epoch(1)
    assert [np.concatenate(each).tolist() for each in parts] == [
        np.concatenate(each).tolist() for each in whole
    ]
    for part in (part for update in parts for part in update):
        S, T = (int(side.lengths[part].max()) for side in (pairs.source, pairs.target))
        assert part.size == 1 or part.size * (S * T if is_joint else S + T) <= 2 * largest


@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_what_fits_is_measured_once(
    system: str, corpus: PreparedCorpus, make_config: Any, events: Watched, scarce: None
) -> None:
    config = make_config(system, batch_tokens=400)
    first = measure(config, corpus, events)
    assert first is not None and first >= 8
    assert measure(config, corpus, events) == first
    assert events.measured == 1
    assert measure(make_config(system, batch_tokens=300), corpus, events) is not None
    assert events.measured == 2


@pytest.mark.parametrize("change", ["graphs", "compiled"])
def test_graphs_and_compiled_layers_are_measured_for_themselves(
    change: str,
    corpus: PreparedCorpus,
    make_config: Any,
    events: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = make_config(batch_tokens=400)
    measure(config, corpus, events)
    if change == "compiled":
        monkeypatch.setattr(size, "has_compiled_layers", lambda _: True)
        measure(config, corpus, events)
    else:
        trainer, _ = make_trainer(Run(Path("never")), config, corpus, device="cpu", events=events)
        made = trainer.gradient.accumulator
        made.captured = CapturedGradients(trainer.model, made._losses_of, lambda work: work)
        largest_size(trainer, config)
        assert not made.captured.kept and not made.captured.has_failed
    assert events.measured == 2


def test_where_all_fits_micro_batches_stay_whole(
    corpus: PreparedCorpus, make_config: Any, events: Watched
) -> None:
    assert measure(make_config(batch_tokens=400), corpus, events) is None
    assert events.measured == 1


def test_memory_that_the_next_size_might_exceed_is_not_tried(
    corpus: PreparedCorpus, make_config: Any, events: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "available_memory", lambda: 2**20)
    smallest = measure(make_config(batch_tokens=400), corpus, events)
    assert smallest is not None and smallest < 32


def test_a_measurement_leaves_no_trace(
    corpus: PreparedCorpus, make_config: Any, events: Watched
) -> None:
    config = make_config(batch_tokens=400)
    trainer, _ = make_trainer(Run(Path("never")), config, corpus, device="cpu", events=events)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    generators = torch.get_rng_state(), random.getstate()
    largest_size(trainer, config)
    assert events.measured == 1
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert all(torch.equal(before[name], now) for name, now in trainer.model.state_dict().items())
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    assert not trainer.optimiser.state


@pytest.mark.sample(2)
@pytest.mark.parametrize("content", ["", "[]", '{"key": 1, "largest": 7}', "\0"])
def test_a_damaged_cache_is_measured_again(
    content: str, corpus: PreparedCorpus, make_config: Any, events: Watched, tmp_path: Path
) -> None:
    config = make_config(batch_tokens=400)
    first = measure(config, corpus, events)
    [path] = (tmp_path / "cache" / "micro-batches").iterdir()
    path.write_text(content, encoding="utf-8")
    assert measure(config, corpus, events) == first
    assert events.measured == 2


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    corpus: PreparedCorpus, make_config: Any, events: Watched, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    assert measure(make_config(batch_tokens=400), corpus, events) is None


@pytest.mark.parametrize(
    "settings",
    [{"micro_batch_tokens": 100}, {"deterministic": True}, {"max_updates": 1}],
    ids=str,
)
def test_given_sizes_determinism_and_short_runs_are_respected(
    settings: dict[str, Any], corpus: PreparedCorpus, make_config: Any, events: Watched
) -> None:
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        assert measure(make_config(batch_tokens=400, **settings), corpus, events) is None
    finally:
        torch.use_deterministic_algorithms(deterministic)
    assert events.measured == 0


def test_a_run_keeps_its_size(
    corpus: PreparedCorpus, make_config: Any, events: Watched, scarce: None, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    config = make_config(batch_tokens=400, max_updates=2)
    train(config, data=corpus.folder, run=run, device="cpu", events=events)
    recorded = Run.open(run).info["largest_micro_batch"]
    assert recorded > 0
    for path in (tmp_path / "cache" / "micro-batches").iterdir():
        path.unlink()
    longer = make_config(batch_tokens=400, max_updates=4)
    result = train(longer, data=corpus.folder, run=run, device="cpu", events=events)
    assert events.measured == 1
    assert events.sizes[0] == events.sizes[1]
    assert f"in parts of {recorded:,}" in events.sizes[0]
    assert result.splits < 2 * 4
