"""`jtrans train` in several processes: what is refused before any is started."""

from __future__ import annotations

import json

import pytest
import torch
from plugins.command_line import Jtrans
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from jtrans.data.prepared import PreparedCorpus
from jtrans.training.distributed import launch

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


def test_processes_that_cannot_reach_each_other(
    jtrans: Jtrans, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*arguments: object) -> None:
        raise RendezvousConnectionError("The connection to the C10d store has failed.")

    monkeypatch.setattr(launch, "elastic_launch", lambda *arguments: unreachable)
    result = jtrans("train", "demo/transformer", "--data", corpus.folder, "--processes", "2")
    assert result.code == 1 and "cannot reach each other" in result.err
    assert "loopback" in result.err and "bug" not in result.err
