"""Micro-batches that do not fit into memory are halved: same gradient, no pair left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import build_model
from jtrans.runs import Run
from jtrans.training import micro_batches
from jtrans.training.micro_batches import GradientAccumulator
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.session import train
from jtrans.training.updates import UpdatePlan


def limit_memory(monkeypatch: pytest.MonkeyPatch, most: int, error: Exception) -> list[int]:
    """Let batches of more than `most` pairs fail in the middle of the backward pass."""
    done: list[int] = []

    def fail(_: Tensor) -> None:
        raise error

    def loss(model: Any, batch: Any, objective: Any) -> tuple[Tensor, Tensor]:
        found, nll = batch_loss(model, batch, objective)
        if len(batch.source) > most:
            # reached when the gradient of the output, but not of the embeddings, is there
            memory = model.encode(batch.source, batch.source_mask).states
            memory.register_hook(fail)
            found = found + 0.0 * memory.sum()
        else:
            done.extend(batch.indices.tolist())
        return found, nll

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
        losses = accumulator.accumulate(pairs, update, plan.tokens(update))
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
    sizes = [size for _, size in splits]
    assert sizes == sorted(sizes, reverse=True)  # what is known not to fit is not tried again


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
