"""What `jtrans train` and `jtrans info` say of a run that met numbers that are not finite."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from plugins.command_line import Jtrans

from jtrans.data.prepared import PreparedCorpus
from jtrans.training.trainer import Trainer

SIZES = ("model.width=16", "model.ffn_width=32", "training.batch_tokens=60")
LIMITS = ("training.max_updates=12", "training.max_epochs=2", "training.validate_sentences=2")


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes gradients infinite as long as the rate is not low enough."""

    def patch(factor: float) -> None:
        original = Trainer.accumulate

        def accumulate(self: Trainer, micro_batches: Any) -> torch.Tensor:
            losses = original(self, micro_batches)
            if self.state.update >= 3 and self.state.trouble.factor > factor:
                losses = losses * float("nan")
            return losses

        monkeypatch.setattr(Trainer, "accumulate", accumulate)

    return patch


def train(jtrans: Jtrans, corpus: PreparedCorpus, *more: str) -> Any:
    settings = [part for setting in (*SIZES, *LIMITS) for part in ("--set", setting)]
    return jtrans(
        "train", "demo/transformer", "--data", corpus.folder, "--run", "run", *settings, *more
    )


def test_a_run_that_recovers_says_so(jtrans: Jtrans, corpus: PreparedCorpus, spoil: Any) -> None:
    spoil(0.5)
    result = train(jtrans, corpus)
    assert result.code == 0
    assert result.err.count("skipped, the loss is nan") == 5
    assert "Back to update 0" in result.err and "rollback 1 of at most 3" in result.err
    assert "the learning rate is 1/2 of the configured one" in result.err
    shown = jtrans("info", "run").out
    assert "5 updates skipped: loss or gradient not finite" in shown
    assert "went back once" in shown
    values = json.loads(jtrans("info", "run", "--json").out)
    assert [each["returns"] for each in values["returns"]] == [1]
    assert [each["update"] for each in values["skips"]] == [4, 5, 6, 7, 8]


def test_a_run_that_does_not_recover_exits_with_1(
    jtrans: Jtrans, corpus: PreparedCorpus, spoil: Any
) -> None:
    spoil(0.0)
    result = train(jtrans, corpus, "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["kind"]) == (1, "work.diverged")
    assert "at update 8, with 1/8 of the configured learning rate" in error["message"]
