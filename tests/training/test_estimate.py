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
    found = estimate(make_config(system, micro_batch_tokens=30), data=corpus.folder)
    pairs = corpus.pairs("train")
    assert (found.pairs, found.tokens) == (len(pairs), int(pairs.target.lengths.sum()))
    assert found.passes > found.updates > 1
    largest = found.largest
    assert largest["positions"] == largest["sentences"] * largest["source"] * largest["target"]
    assert largest["sentences"] * largest["target"] <= 30
    assert found.memory_bytes > 2**20
    assert (found.positions_per_second is not None) == (system == "reformer-base")
    seconds = found.total_seconds
    assert seconds == pytest.approx(12 * found.epoch_seconds / found.updates)
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
    found = estimate(make_config("reformer-fast"), data=corpus.folder)
    assert found.splits > 0
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
