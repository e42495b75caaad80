"""Micro-batches that do not fit into memory are halved: same gradient, no pair left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from jtrans.data.bucketing import BatchSampler
from jtrans.data.ids import IdStore, ParallelIds
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.systems import PervasiveConfig
from jtrans.models.zoo import build_model
from jtrans.runs import STATE, Run
from jtrans.training import micro_batches
from jtrans.training.checkpoint import read_state
from jtrans.training.memory import MemoryLimits
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.session import train
from jtrans.training.state import TrainingState
from jtrans.training.updates import MicroBatch, UpdatePlan


def limit_memory(monkeypatch: pytest.MonkeyPatch, most: int, error: Exception) -> list[int]:
    """Let batches of more than `most` pairs fail in the middle of the backward pass."""
    done: list[int] = []

    def fail(_: Tensor) -> None:
        raise error

    def loss(model: Any, batch: Any, objective: Any, memory: Any) -> tuple[Tensor, Tensor]:
        smoothed, nll = batch_loss(model, batch, objective, memory)
        if len(batch.source) > most:
            # reached when the gradient of the output, but not of the embeddings, is there
            memory.states.register_hook(fail)
            smoothed = smoothed + 0.0 * memory.states.sum()
        else:
            done.extend(batch.indices.tolist())
        return smoothed, nll

    monkeypatch.setattr(micro_batches, "batch_loss", loss)
    return done


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_halves_have_the_gradient_of_the_whole(
    error: Exception, corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(
        "reformer-base", {"dropout": 0.0}, batch_tokens=400, micro_batch_tokens=200
    )
    pairs = corpus.pairs("train")
    plan = UpdatePlan(pairs, config.training, is_joint=True)
    update = plan.epoch(0)[0]
    sides = corpus.pipeline.source.vocabulary, corpus.pipeline.target.vocabulary
    model = build_model(config.model, *map(len, sides)).double()
    assert len(update) > 1

    def gradients(splits: list[tuple[int, int]]) -> tuple[list[Tensor], Tensor]:
        model.zero_grad()
        accumulator = GradientAccumulator(
            model,
            Objective(0.1),
            precision="fp32",
            on_split=lambda sentences, size: splits.append((sentences, size)),
        )
        losses = accumulator.accumulate(UpdateLoss(pairs, plan.tokens(update)), update)
        return [p.grad.clone() for p in model.parameters() if p.grad is not None], losses

    whole, whole_losses = gradients([])
    most = 7
    assert max(indices.size for indices in update) > 2 * most
    done = limit_memory(monkeypatch, most, error)
    splits: list[tuple[int, int]] = []
    halves, losses = gradients(splits)
    for ours, theirs in zip(halves, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(losses, whole_losses)
    assert sorted(done) == sorted(i for indices in update for i in indices.tolist())
    assert splits and all(sentences > most for sentences, _ in splits)
    repeated = len(splits)
    gradients(splits)
    assert len(splits) == 2 * repeated  # another accumulator knows nothing


def test_what_does_not_fit_leaves_no_batch_statistics(
    corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = PervasiveConfig(network="dense", aggregation="max", layers=1, width=8, dropout=0.0)
    sides = corpus.pipeline.source.vocabulary, corpus.pipeline.target.vocabulary
    whole = np.arange(16)

    def statistics(micro_batches: list[MicroBatch]) -> list[Tensor]:
        torch.manual_seed(1)
        model = build_model(config, *map(len, sides)).double().train()
        accumulator = GradientAccumulator(model, Objective(), precision="fp32")
        accumulator.accumulate(UpdateLoss(corpus.pairs("train"), 100), micro_batches)
        return [buffer for name, buffer in model.named_buffers() if "norm" in name]

    expected = statistics([whole[:8], whole[8:]])
    limit_memory(monkeypatch, 8, torch.OutOfMemoryError("CUDA out of memory"))
    assert expected
    for ours, theirs in zip(statistics([whole]), expected, strict=True):
        assert torch.equal(ours, theirs)


def uneven_pairs() -> ParallelIds:
    """Return ordinary pairs and pairs of a long source and a short target, ids below 20."""
    draw = np.random.default_rng(1)

    def side(lengths: list[int]) -> IdStore:
        offsets = np.cumsum([0, *lengths])
        return IdStore(draw.integers(4, 20, offsets[-1]).astype(np.int32), offsets)

    return ParallelIds(side([5] * 40 + [90] * 40), side([6] * 40 + [2] * 40))


def test_long_sources_are_cut_into_micro_batches_of_the_same_update_and_gradient(
    make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = uneven_pairs()
    config = make_config("transformer", {"dropout": 0.0}, batch_tokens=120)
    plan = UpdatePlan(pairs, config.training, is_joint=False)
    cut = plan.epoch(0)
    parts = [indices for update in cut for indices in update]
    assert max(indices.size * int(pairs.source.lengths[indices].max()) for indices in parts) <= 240
    monkeypatch.setattr(BatchSampler, "cut_by_source", lambda _, batch: [batch])
    whole = plan.epoch(0)
    assert [np.concatenate(u).tolist() for u in cut] == [np.concatenate(u).tolist() for u in whole]
    model = build_model(config.model, 20, 20).double()

    def gradients(update: list[MicroBatch]) -> list[Tensor]:
        model.zero_grad()
        accumulator = GradientAccumulator(model, Objective(0.1), precision="fp32")
        accumulator.accumulate(UpdateLoss(pairs, plan.tokens(update)), update)
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    longest = max(range(len(cut)), key=lambda index: len(cut[index]))
    for ours, theirs in zip(gradients(cut[longest]), gradients(whole[longest]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_what_does_not_fit_with_long_sentences_does_not_cut_short_ones() -> None:
    limits = MemoryLimits()
    limits.fail(800, longest=150)
    assert not limits.fits(800, longest=130) and not limits.fits(900, longest=500)
    assert limits.fits(799, longest=150)
    assert limits.fits(8000, longest=40)


def test_a_size_that_did_not_fit_is_tried_again_but_ever_more_rarely() -> None:
    limits, tries = MemoryLimits(), []
    for update in range(40_000):
        limits.count_update()
        for _ in range(3):  # micro-batches of an update
            if limits.fits(4096, longest=30):
                tries.append(update)
                limits.fail(4096, longest=30)
    assert tries[:4] == [0, 50, 150, 350]
    assert len(tries) < 15
    for _ in range(2 * 6400):  # memory is free again
        limits.count_update()
    assert limits.fits(4096, longest=30)


def test_a_failure_in_passing_stops_cutting_after_a_few_hundred_updates() -> None:
    limits = MemoryLimits()
    limits.count_update()
    for size in (4096, 2048, 1024, 512, 256, 128, 64):  # halved until it fitted
        limits.fail(size, longest=30)
    for _ in range(400):
        limits.count_update()
    assert limits.fits(4096, longest=30)


def test_what_did_not_fit_is_known_after_a_crash(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 5, torch.OutOfMemoryError("CUDA out of memory"))
    config = make_config("reformer-fast", max_updates=12, validate_every=4)
    whole = train(config, data=corpus.folder, run=tmp_path / "whole")
    shorter = make_config("reformer-fast", max_updates=8, validate_every=4)
    train(shorter, data=corpus.folder, run=tmp_path / "run")
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    assert result.splits == whole.splits > 0
    ours, theirs = (Run(tmp_path / name).checkpoint("last") for name in ("run", "whole"))
    assert read_state(ours).limits == read_state(theirs).limits != MemoryLimits()
    assert ours.weights.read_bytes() == theirs.weights.read_bytes()


def test_a_checkpoint_of_a_former_version_knows_no_limits(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    train(make_config(max_updates=2), data=corpus.folder, run=tmp_path / "run")
    values = json.loads((Run(tmp_path / "run").checkpoint().folder / STATE).read_bytes())
    del values["limits"], values["python_random"], values["format"]
    assert TrainingState.from_json(values).limits == MemoryLimits()


def test_a_run_counts_and_logs_what_it_halved(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 5, torch.OutOfMemoryError("CUDA out of memory"))
    result = train(make_config("reformer-fast"), data=corpus.folder, run=tmp_path / "run")
    assert result.update == 12 and result.splits > 0
    lines = Run(tmp_path / "run").folder.joinpath("log.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["splits"] for event in events if event["event"] == "split"] == list(
        range(1, result.splits + 1)
    )


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 5, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(make_config("reformer-fast"), data=corpus.folder, run=tmp_path / "run")
