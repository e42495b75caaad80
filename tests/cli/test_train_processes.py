"""`jtrans train` in several processes: what is refused before any is started."""

from __future__ import annotations

import json

import pytest
import torch
from plugins.command_line import Jtrans
from plugins.random_runs import MakeRun
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import WorkError
from jtrans.training.distributed import launch as launch_of_ranks

TRAIN = ("train", "demo/transformer", "--data", "data", "--json")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("--gpus", "1"), "config.absent-device"),
        (("--gpus", "all"), "config.absent-device"),
        (("--gpus", "some"), "command.usage"),
        (("--gpus", "1", "--processes", "2"), "command.usage"),
        (("--gpus", "1", "--device", "cpu"), "command.usage"),
        (("--processes", "2", "--device", "cuda"), "command.usage"),
        (("--processes", "0"), "command.usage"),
        (("--processes", "100000"), "command.usage"),
        (("--shard-model",), "command.usage"),
        (("--shard-model", "--processes", "1"), "command.usage"),
        (("--shard-model", "--dry-run"), "command.usage"),
        (("--processes", "2", "--dry-run"), "command.usage"),
    ],
)
def test_options_that_cannot_be_used(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    kind: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = jtrans(*TRAIN, *options)
    assert (result.code, json.loads(result.out)["error"]["kind"]) == (2, kind)


def test_another_number_of_processes_than_started(
    jtrans: Jtrans, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = jtrans(*TRAIN, "--processes", "2")
    assert (result.code, json.loads(result.out)["error"]["kind"]) == (2, "distributed.world-size")


@pytest.mark.parametrize(
    ("restarts", "launch", "is_deleted"),
    [("0", "this", True), ("1", "this", False), ("1", "another", True), ("1", None, True)],
)
def test_a_lost_process_does_not_delete_again_what_was_trained_since(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    restarts: str,
    launch: str | None,
    is_deleted: bool,
) -> None:
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    variables |= {"TORCHELASTIC_RESTART_COUNT": restarts, "TORCHELASTIC_RUN_ID": "this"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seen: list[bool] = []

    def noted(*arguments: object, restart: bool, **options: object) -> None:
        seen.append(restart)
        raise WorkError("far enough")

    monkeypatch.setattr("jtrans.cli.train.table.train_with_table", noted)
    run = make_run(launch=launch)
    jtrans("train", "demo/transformer", "--data", corpus.folder, "--run", run, "--restart")
    assert seen == [is_deleted]


@pytest.mark.parametrize("options", [("--from", "wrong"), ("--seeds", "1,1"), ("--seeds", "x")])
@pytest.mark.parametrize("way", [("--processes", "2"), ("--dry-run",)])
def test_mistakes_are_told_once_and_before_processes_are_started(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    way: tuple[str, ...],
) -> None:
    monkeypatch.setattr(launch_of_ranks, "elastic_launch", lambda *_: pytest.fail("started"))
    assert jtrans("train", "demo/transformer", "--data", corpus.folder, *options, *way).code == 2


def test_processes_that_cannot_reach_each_other(
    jtrans: Jtrans, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*arguments: object) -> None:
        raise RendezvousConnectionError("The connection to the C10d store has failed.")

    monkeypatch.setattr(launch_of_ranks, "elastic_launch", lambda *arguments: unreachable)
    result = jtrans("train", "demo/transformer", "--data", corpus.folder, "--processes", "2")
    assert result.code == 1 and "cannot reach each other" in result.err
    assert "loopback" in result.err and "bug" not in result.err
