from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.folders import contents

from jtrans.data.prepared import PreparedCorpus
from jtrans.training import micro_batches
from jtrans.training.estimate import estimate
from jtrans.training.objective import batch_loss


@pytest.mark.parametrize("system", ["transformer", "reformer-base"])
def test_an_estimate_counts_the_epoch_and_writes_nothing(
    system: str, corpus: PreparedCorpus, make_config: Any
) -> None:
    before = sorted(corpus.folder.rglob("*"))
    cost = estimate(make_config(system, micro_batch_tokens=30), data=corpus.folder)
    pairs = corpus.pairs("train")
    assert (cost.pairs, cost.tokens) == (len(pairs), int(pairs.target.lengths.sum()))
    assert cost.passes > cost.updates > 1
    largest = cost.largest
    assert largest["positions"] == largest["sentences"] * largest["source"] * largest["target"]
    assert largest["sentences"] * largest["target"] <= 30
    assert cost.memory_bytes > 2**20
    assert (cost.positions_per_second is not None) == (system == "reformer-base")
    seconds = cost.total_seconds
    assert seconds == pytest.approx(12 * cost.epoch_seconds / cost.updates)
    assert sorted(corpus.folder.rglob("*")) == before


def test_an_estimate_that_runs_out_of_memory_writes_nothing(
    corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scarce(model: Any, batch: Any, objective: Any, memory: Any) -> Any:
        if len(batch.source) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch_loss(model, batch, objective, memory)

    monkeypatch.setattr(micro_batches, "batch_loss", scarce)
    before = contents(corpus.folder)
    cost = estimate(make_config("reformer-fast"), data=corpus.folder)
    assert cost.splits > 0
    assert contents(corpus.folder) == before


def test_an_estimate_trains_nothing(
    corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rates: list[float] = []
    monkeypatch.chdir(tmp_path)
    original = estimate.__globals__["make_trainer"]

    def spy(*args: Any, **kwargs: Any) -> Any:
        trainer, description = original(*args, **kwargs)
        step = trainer.step

        def watched(rate: float) -> Any:
            rates.append(rate)
            return step(rate)

        trainer.step = watched
        return trainer, description

    monkeypatch.setitem(estimate.__globals__, "make_trainer", spy)
    estimate(make_config(), data=corpus.folder)
    assert set(rates) == {0.0}
    assert list(tmp_path.iterdir()) == []
