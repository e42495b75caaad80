"""The loss of a large vocabulary is computed in chunks of tokens: same loss, same gradient.

This is the form for GPUs, and for systems whose output is not linear.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.data.batch import collate
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import build_model
from jtrans.training import objective
from jtrans.training.objective import Objective, batch_loss


@pytest.mark.parametrize("at_once", [1, 100, 137])
@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_chunks_change_neither_loss_nor_gradient(
    system: str,
    at_once: int,
    corpus: PreparedCorpus,
    make_config: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = corpus.pipeline.source.vocabulary, corpus.pipeline.target.vocabulary
    model = build_model(make_config(system).model, *map(len, sides)).double().eval()
    batch = collate(corpus.pairs("train"), torch.arange(9).numpy())
    projected: list[int] = []
    project = model.project

    def counted(hidden: Tensor) -> Tensor:
        projected.append(len(hidden))
        return project(hidden)

    monkeypatch.setattr(model, "project", counted)
    monkeypatch.setattr(model, "output_weights", lambda: None)

    def run() -> list[Tensor]:
        model.zero_grad()
        loss, nll = batch_loss(model, batch, Objective(0.1))
        loss.backward()
        return [loss, nll] + [p.grad.clone() for p in model.parameters() if p.grad is not None]

    whole = run()
    assert max(projected) == batch.target_tokens
    projected.clear()
    monkeypatch.setattr(objective, "LOGITS_AT_ONCE", at_once)
    for ours, theirs in zip(run(), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert max(projected) <= max(1, at_once // len(sides[1]))
    assert sum(projected) == 2 * batch.target_tokens  # forward, and again for the backward pass
