"""Several processes train one model, of whose weights each holds a shard."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed.fsdp  # before ranks are forked: each would take seconds to load it
import torch.distributed.tensor
from hypothesis import given
from hypothesis import strategies as st
from plugins.rank_processes import run_ranks, start_ranks
from plugins.training_in_ranks import EXACT, difference, have_the_same_bytes, train_in

from jtrans.config import Config, build_config
from jtrans.data.batch import Batch
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training import micro_batches
from jtrans.training.distributed.dealing import deal_evenly
from jtrans.training.distributed.group import Group
from jtrans.training.objective import batch_loss
from jtrans.training.session import train
from jtrans.training.updates import MicroBatch

MakeExact = Callable[..., Config]
shard_over = functools.partial(train_in, shard_model=True)


@pytest.fixture
def exact(make_config: Any) -> MakeExact:
    """Make a setting in which shards learn what one process learns."""

    def make(**settings: Any) -> Config:
        values = {**EXACT, "max_updates": 6, "validate_every": 50, **settings}
        return make_config(model={"dropout": 0.0}, **values)  # type: ignore[no-any-return]

    return make


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ema_decay": 0.9, "clip_norm": 0.5, "l2": 1e-3, "gradient_guard": True},
        {"recompute": "layer", "freeze": ["source_embedding.*"]},
    ],
)
def test_shards_learn_what_one_process_learns(
    exact: MakeExact, corpus: PreparedCorpus, tmp_path: Path, settings: dict[str, Any]
) -> None:
    config = exact(**settings)
    train(config, data=corpus.folder, run=tmp_path / "alone")
    shard_over(2, config, corpus, tmp_path / "shards")
    assert difference(tmp_path / "alone", tmp_path / "shards") < 1e-6
    measured = [
        next(each for each in Run(tmp_path / name).events() if each["event"] == "validation")
        for name in ("alone", "shards")
    ]
    assert measured[0]["valid_loss"] == pytest.approx(measured[1]["valid_loss"], abs=1e-6)
    assert measured[0]["bleu"] == measured[1]["bleu"]


@pytest.mark.thorough
def test_a_run_continues_with_and_without_shards(
    exact: MakeExact, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    train(exact(ema_decay=0.9), data=corpus.folder, run=tmp_path / "alone")
    run = tmp_path / "mixed"
    shard_over(2, exact(ema_decay=0.9, max_updates=2), corpus, run)
    train(exact(ema_decay=0.9, max_updates=4), data=corpus.folder, run=run)
    shard_over(3, exact(ema_decay=0.9), corpus, run)
    assert difference(tmp_path / "alone", run) < 1e-6


@pytest.mark.thorough
def test_shards_continue_without_a_moving_average_from_the_trained_weights(
    exact: MakeExact, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    train(exact(ema_decay=0.9, max_updates=4), data=corpus.folder, run=tmp_path / "alone")
    shutil.copytree(tmp_path / "alone", tmp_path / "shards", symlinks=True)
    train(exact(), data=corpus.folder, run=tmp_path / "alone")
    shard_over(2, exact(), corpus, tmp_path / "shards")
    assert difference(tmp_path / "alone", tmp_path / "shards") < 1e-6


@pytest.mark.thorough
def test_shards_keep_the_moments_of_the_run_that_they_start_from(
    exact: MakeExact, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    train(exact(), data=corpus.folder, run=tmp_path / "base")
    start: dict[str, Any] = {"initial": Run.open(tmp_path / "base"), "keep_optimiser": True}
    config = exact(max_updates=1)
    train(config, data=corpus.folder, run=tmp_path / "alone", **start)
    shard_over(2, config, corpus, tmp_path / "shards", **start)
    assert difference(tmp_path / "alone", tmp_path / "shards") < 1e-6


@pytest.mark.thorough
def test_a_resumed_group_ends_with_the_same_bytes(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    for name, stops in (("whole", (6,)), ("resumed", (3, 6))):
        for stop in stops:
            shard_over(2, make_config(max_updates=stop), corpus, tmp_path / name)
    assert have_the_same_bytes(tmp_path / "whole", tmp_path / "resumed")


@pytest.mark.thorough
def test_ranks_without_sentences_of_their_own_add_nothing(
    exact: MakeExact, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    config = exact(batch_tokens=5, max_updates=2, validate_sentences=1)
    train(config, data=corpus.folder, run=tmp_path / "alone")
    shard_over(3, config, corpus, tmp_path / "shards")
    assert difference(tmp_path / "alone", tmp_path / "shards") < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted(system_configs()))
def test_every_system_can_be_sharded(system: str, corpus: PreparedCorpus, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"width": 16, "ffn_width": 32, "heads": 2}
    model: dict[str, Any] = {"system": system}
    for name, field in system_configs()[system].model_fields.items():
        if name in sizes:
            model[name] = sizes[name]
        elif name.endswith("layers") and isinstance(field.default, int):
            model[name] = 2
        elif name.endswith("dropout") and isinstance(field.default, float):
            model[name] = 0.0
    training = {**EXACT, "max_updates": 3, "validate_sentences": 2}
    config = build_config({"model": model, "training": training}, system_configs(), where="t")
    train(config, data=corpus.folder, run=tmp_path / "alone")
    shard_over(2, config, corpus, tmp_path / "shards")
    assert difference(tmp_path / "alone", tmp_path / "shards") < 1e-5


def test_memory_that_runs_out_is_explained(
    exact: MakeExact,
    corpus: PreparedCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loss(model: Any, batch: Batch, *rest: Any) -> Any:
        if os.environ.get("RANK") == "1":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch_loss(model, batch, *rest)

    monkeypatch.setattr(micro_batches, "batch_loss", loss)

    def one_rank(_: int) -> int:
        return train(exact(), data=corpus.folder, run=tmp_path, shard_model=True).update

    ranks, results = start_ranks(2, one_rank)
    fault = results.get()[1]
    for process in ranks:
        process.join()
    assert "with --shard-model no micro-batch is halved" in fault


@pytest.mark.thorough
def test_a_lost_rank_is_named_and_the_last_checkpoint_stays(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Group.begin_micro_batch

    def begin(self: Group, seed: int, number: int, indices: MicroBatch) -> None:
        original(self, seed, number, indices)
        if self.rank == 1 and number == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    config = make_config(max_updates=6, validate_every=2)

    def one_rank(_: int) -> int:
        return train(config, data=corpus.folder, run=tmp_path / "run", shard_model=True).update

    with monkeypatch.context() as patch:
        patch.setattr(Group, "begin_micro_batch", begin)
        ranks, results = start_ranks(2, one_rank)
        rank, fault = results.get()
        for process in ranks:
            process.join()
    assert rank == 0
    assert f"rank 1 (process {ranks[1].pid} on" in fault
    assert "has died" in fault
    assert Run(tmp_path / "run").checkpoint("last").update == 4
    shard_over(2, config, corpus, tmp_path / "run")
    shard_over(2, config, corpus, tmp_path / "whole")
    assert difference(tmp_path / "run", tmp_path / "whole") == 0.0


def test_an_optimiser_that_needs_whole_weights_is_refused(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    config = make_config(optimiser={"name": "adafactor"})

    def one_rank(_: int) -> int:
        return train(config, data=corpus.folder, run=tmp_path / "run", shard_model=True).update

    assert "Adafactor needs the means of whole rows" in str(run_ranks(2, one_rank))
    assert not (tmp_path / "run").exists()


@given(
    sizes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 900)), min_size=1, max_size=12),
    ranks=st.integers(1, 9),
)
def test_even_dealing_gives_every_rank_equally_many(
    sizes: list[tuple[int, int]], ranks: int
) -> None:
    borders = np.cumsum([0, *(size for size, _ in sizes)])
    parts = [np.arange(a, b) for a, b in itertools.pairwise(borders)]
    dealt = deal_evenly(parts, [size * cost for size, cost in sizes], ranks)
    assert len({len(of_rank) for of_rank, _ in dealt}) == 1
    counted = [part for of_rank, idle in dealt for part in of_rank[: len(of_rank) - idle]]
    assert [int(index) for part in counted for index in part] == list(range(borders[-1]))
    assert all(part.size for of_rank, _ in dealt for part in of_rank)
