"""Several processes train together as one does alone."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plugins.rank_processes import run_ranks, start_ranks
from plugins.training_in_ranks import EXACT, difference, have_the_same_bytes, train_in

from jtrans.config import Config, build_config
from jtrans.data.batch import Batch
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training import micro_batches
from jtrans.training.distributed import meeting, watchdog
from jtrans.training.distributed.dealing import deal
from jtrans.training.distributed.group import Group
from jtrans.training.distributed.place import place_of_process
from jtrans.training.objective import batch_loss
from jtrans.training.session import train
from jtrans.training.trainer import Trainer
from jtrans.training.updates import MicroBatch


@pytest.fixture
def exact(make_config: Any) -> Config:
    """A setting in which any number of processes learns the same."""
    values = {**EXACT, "max_updates": 8, "validate_every": 50}
    return make_config(model={"dropout": 0.0}, **values)  # type: ignore[no-any-return]


def with_updates(config: Config, count: int) -> Config:
    return config.with_training(max_updates=count)


@pytest.fixture
def alone(exact: Config, corpus: PreparedCorpus, tmp_path: Path) -> Path:
    """A run of one process."""
    train(exact, data=corpus.folder, run=tmp_path / "alone")
    return tmp_path / "alone"


@pytest.mark.parametrize(
    ("counts", "updates"), [((2,), 8), pytest.param((2, 4), 50, marks=pytest.mark.slow)]
)
def test_any_number_of_processes_learns_the_same(
    exact: Config, corpus: PreparedCorpus, tmp_path: Path, counts: tuple[int, ...], updates: int
) -> None:
    config = with_updates(exact, updates)
    train(config, data=corpus.folder, run=tmp_path / "alone")
    for count in counts:
        train_in(count, config, corpus, tmp_path / str(count))
        assert difference(tmp_path / "alone", tmp_path / str(count)) < 1e-6
    rows = [
        [event for event in Run(tmp_path / name).events() if event["event"] == "validation"]
        for name in ("alone", *map(str, counts))
    ]
    for row, *others in zip(*rows, strict=True):
        for other in others:
            assert other["valid_loss"] == pytest.approx(row["valid_loss"], abs=1e-6)
            assert other["train_loss"] == pytest.approx(row["train_loss"], abs=1e-6)
            assert other["bleu"] == row["bleu"]


def test_a_rank_that_runs_out_of_memory_halves_its_micro_batches_alone(
    exact: Config,
    corpus: PreparedCorpus,
    tmp_path: Path,
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loss(model: Any, batch: Batch, *rest: Any) -> Any:
        if len(batch.source) > 2 and os.environ["RANK"] == "1":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch_loss(model, batch, *rest)

    monkeypatch.setattr(micro_batches, "batch_loss", loss)

    def one_rank(_: int) -> int:
        return train(exact, data=corpus.folder, run=tmp_path / "halved").splits

    splits = run_ranks(2, one_rank)
    assert splits[0] == splits[1] > 0
    assert difference(alone, tmp_path / "halved") < 1e-6


def test_a_run_continues_in_another_number_of_processes(
    exact: Config, corpus: PreparedCorpus, tmp_path: Path, alone: Path
) -> None:
    train_in(2, with_updates(exact, 4), corpus, tmp_path / "mixed")
    train_in(3, exact, corpus, tmp_path / "mixed")
    assert difference(alone, tmp_path / "mixed") < 1e-6


def test_every_micro_batch_of_every_update_draws_its_own_dropout() -> None:
    group = Group.__new__(Group)  # of which only this needs no other process
    group.watchdog = SimpleNamespace(doing=lambda _: None)  # type: ignore[assignment]

    def draw(seed: int, update: int, first: int) -> float:
        group.begin_micro_batch(seed, update, np.array([first, 7]))
        return float(torch.rand(()))

    places = [(1, 0, 3), (2, 0, 3), (1, 5, 3), (1, 0, 4)]
    draws = [draw(*place) for place in places]
    assert len(set(draws)) == 4 and [draw(*place) for place in places] == draws


@pytest.mark.thorough
def test_a_resumed_group_draws_the_same_dropout(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    for name, stops in (("whole", (6,)), ("resumed", (3, 6))):
        for stop in stops:
            train_in(2, make_config(max_updates=stop, ema_decay=0.9), corpus, tmp_path / name)
    assert have_the_same_bytes(tmp_path / "whole", tmp_path / "resumed")


def test_more_ranks_than_sentences_still_train(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    config = make_config(max_updates=2, batch_tokens=5, validate_sentences=1)
    train_in(3, config, corpus, tmp_path / "run")


def test_a_stop_of_one_rank_in_a_validation_stops_all_and_saves(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    def one_rank(rank: int) -> tuple[str, int]:
        asked = 0

        def should_stop() -> bool:
            nonlocal asked
            asked += rank * (tmp_path / "run").exists()  # not while ranks wait for each other
            return asked > 2  # the second call after an update is in its validation

        config = make_config(max_updates=4, validate_every=1)
        result = train(config, data=corpus.folder, run=tmp_path / "run", should_stop=should_stop)
        return result.reason, result.update

    (reason, update), other = run_ranks(2, one_rank)
    assert (reason, update) == other == ("stopped", update)
    assert Run(tmp_path / "run").checkpoint("last").update == update


def test_statistics_of_micro_batches_are_refused(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    model: dict[str, Any] = {"system": "pervasive", "network": "dense", "aggregation": "max"}
    model |= {"layers": 1, "width": 8, "channels": 16, "growth": 8, "kernel": 3}
    config = build_config(
        {"model": model, "training": {"max_updates": 1}}, system_configs(), where="t"
    )

    def one_rank(_: int) -> str:
        with pytest.raises(JtransError) as caught:
            train(config, data=corpus.folder, run=tmp_path / "run")
        return caught.value.kind

    kinds = set(run_ranks(2, one_rank))
    assert kinds <= {"distributed.batch-statistics", "distributed.other-rank"}
    assert "distributed.batch-statistics" in kinds
    assert not (tmp_path / "run").exists()


def test_a_port_in_use_is_named(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        for name, value in {**variables, "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(JtransError, match=f"port {port} is in use") as caught:
            train(make_config(), data=corpus.folder, run=tmp_path / "run")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_that_waits_for_others_can_be_stopped(
    rank: str,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meeting, "LAST_SECONDS", 0.2)
    run = tmp_path / "run"

    def wait_alone(_: int) -> tuple[str, bool]:
        with pytest.raises(JtransError) as caught:
            train(make_config(), data=corpus.folder, run=run, should_stop=lambda: True)
        return caught.value.kind, run.exists()

    assert run_ranks(1, wait_alone, RANK=rank, WORLD_SIZE="2") == [("distributed.not-met", False)]


@pytest.mark.parametrize("wrong", [{"RANK": "2"}, {"RANK": "x"}, {"MASTER_PORT": "x"}])
def test_a_wrong_world_size_is_refused(
    wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "RANK": "0"}
    for name, value in {**variables, **wrong}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(JtransError) as caught:
        place_of_process()
    assert (caught.value.kind, caught.value.exit_code) == ("distributed.world-size", 2)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 900)), min_size=1, max_size=12),
    ranks=st.integers(1, 9),
)
def test_dealing_gives_every_sentence_to_one_rank_and_equal_costs(
    sizes: list[tuple[int, int]], ranks: int
) -> None:
    borders = np.cumsum([0, *(size for size, _ in sizes)])
    micro_batches = [np.arange(a, b) for a, b in itertools.pairwise(borders)]
    costs = [size * cost for size, cost in sizes]
    dealt = deal(micro_batches, costs, ranks)
    flat = [int(index) for of_rank in dealt for part in of_rank for index in part]
    assert len(dealt) == ranks
    assert flat == list(range(borders[-1]))
    per_sentence = np.concatenate([np.full(size, cost) for size, cost in sizes])
    most = max(sum(int(per_sentence[part].sum()) for part in of_rank) for of_rank in dealt)
    assert most <= 1.25 * sum(costs) / ranks + max(cost for _, cost in sizes)


def fail_in(update: int, fail: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rank 1 call `fail` when it begins to compute its share of an update."""
    original = Group.begin_micro_batch

    def begin(self: Group, seed: int, number: int, indices: MicroBatch) -> None:
        original(self, seed, number, indices)
        if self.rank == 1 and number == update:
            fail()

    monkeypatch.setattr(Group, "begin_micro_batch", begin)


def test_a_failure_that_would_come_again_starts_no_rank_again(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "PULSE_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "LEAVING_SECONDS", 0.2)

    def begin(self: Group, *_: Any) -> None:
        if self.rank == 1:
            time.sleep(60)  # it waits for no other rank
        raise JtransError("the folder of the run is gone")

    monkeypatch.setattr(Group, "begin_micro_batch", begin)

    def one_rank(_: int) -> str:
        with pytest.raises(JtransError) as caught:
            train(make_config(), data=corpus.folder, run=tmp_path / "run")
        time.sleep(2)  # the words are kept by this process, not by torch's launcher
        return caught.value.message

    launcher = f"{os.getpid()}:{tmp_path}"
    answers = run_ranks(2, one_rank, JTRANS_LAUNCHER=launcher)
    assert answers == ["the folder of the run is gone", "exit code 0"]
    assert (tmp_path / "1.code").read_text() == "2"  # as the rank that has failed


def test_the_death_of_a_rank_is_named_and_costs_no_whole_update(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(max_updates=6)

    def one_rank(_: int) -> int:
        return train(config, data=corpus.folder, run=tmp_path / "run").update

    with monkeypatch.context() as patch:
        fail_in(4, lambda: os.kill(os.getpid(), signal.SIGKILL), patch)
        ranks, results = start_ranks(2, one_rank)
        rank, fault = results.get()
        for process in ranks:
            process.join()
    assert rank == 0
    assert f"rank 1 (process {ranks[1].pid} on" in fault
    assert "has died" in fault
    assert [checkpoint.name for checkpoint in Run(tmp_path / "run").checkpoints()] == [
        "step-00000004"
    ]
    train_in(2, config, corpus, tmp_path / "run")
    train_in(2, config, corpus, tmp_path / "whole")
    assert have_the_same_bytes(tmp_path / "run", tmp_path / "whole")


def test_a_rank_that_dies_leaves_the_others_the_time_to_save(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "PULSE_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "LEAVING_SECONDS", 0.3)
    save = Run.new_checkpoint

    def save_slowly(run: Run, *options: Any, **named: Any) -> Any:
        time.sleep(3.0)
        return save(run, *options, **named)

    monkeypatch.setattr(Run, "new_checkpoint", save_slowly)
    fail_in(2, lambda: os.kill(os.getpid(), signal.SIGKILL), monkeypatch)

    def one_rank(_: int) -> int:
        return train(make_config(max_updates=6), data=corpus.folder, run=tmp_path / "run").update

    ranks, _ = start_ranks(3, one_rank)  # the third has nothing to save, and tells the first
    for process in ranks:
        process.join()
    names = [checkpoint.name for checkpoint in Run(tmp_path / "run").checkpoints()]
    assert names == ["step-00000002"]


@pytest.mark.thorough
def test_a_rank_that_cannot_save_after_a_loss_does_not_wait_for_ever(
    make_config: Any, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "PULSE_SECONDS", 0.2)

    def wait(_: Trainer) -> None:  # as on a GPU whose sum with the lost rank never ends
        watchdog.STUCK_SECONDS = 1.0  # in this process
        time.sleep(60.0)

    monkeypatch.setattr(Trainer, "_check_weights", wait)
    fail_in(2, lambda: os.kill(os.getpid(), signal.SIGKILL), monkeypatch)

    def one_rank(_: int) -> int:
        return train(make_config(max_updates=6), data=corpus.folder, run=tmp_path / "run").update

    begin = time.monotonic()
    ranks, _ = start_ranks(2, one_rank)
    for process in ranks:
        process.join()
    assert ranks[0].exitcode == 1
    assert time.monotonic() - begin < 50.0


@pytest.mark.thorough
def test_a_stuck_rank_says_where_it_is_and_ends_all(
    make_config: Any,
    corpus: PreparedCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "PULSE_SECONDS", 0.2)

    def wait() -> None:
        watchdog.STUCK_SECONDS = 1.0  # in this process
        time.sleep(60.0)

    fail_in(1, wait, monkeypatch)

    def one_rank(_: int) -> int:
        return train(make_config(), data=corpus.folder, run=tmp_path / "run").update

    ranks, results = start_ranks(2, one_rank)
    rank, fault = results.get()
    for process in ranks:
        process.join()
    assert (rank, ranks[1].exitcode) == (0, 1)
    assert "rank 1 has been stuck" in fault
    assert "time.sleep(60.0)" in fault  # its stack
