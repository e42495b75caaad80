"""Micro-batches that a thread pads ahead are those that would be padded when they are needed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jtrans.data.batch import collate
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import WEIGHTS, Run
from jtrans.training.feeding import ahead
from jtrans.training.feeding.ahead import BatchesAhead
from jtrans.training.session import train

CPU = torch.device("cpu")


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("jtrans-batches")]


@pytest.fixture
def padded_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Use the thread on a CPU, and return the threads that pad."""
    names: list[str] = []

    def noted(*args: Any) -> Any:
        names.append(threading.current_thread().name)
        return collate(*args)

    monkeypatch.setattr(ahead, "collate", noted)
    monkeypatch.setattr(ahead, "WITH_THREAD", {"cpu"})
    return names


def test_expected_micro_batches_come_from_the_thread(
    corpus: PreparedCorpus, padded_in: list[str]
) -> None:
    pairs, batches = corpus.pairs("train"), BatchesAhead(CPU)
    first, second, other = np.array([3, 1]), np.array([7]), np.array([5, 6])
    batches.expect(pairs, [first, second])
    batches.expect(pairs, [second])  # the first is forgotten, the second not padded again
    for indices in (second, other):
        taken, expected = batches.take(pairs, indices), collate(pairs, indices)
        assert torch.equal(taken.source, expected.source)
        assert torch.equal(taken.target_out, expected.target_out)
    assert padded_in.count("MainThread") == 1
    batches.close()
    assert threads() == []


def test_other_pairs_are_padded_again(corpus: PreparedCorpus, padded_in: list[str]) -> None:
    batches = BatchesAhead(CPU)
    train_pairs, valid_pairs, indices = corpus.pairs("train"), corpus.pairs("valid"), np.array([0])
    batches.expect(train_pairs, [indices])
    taken = batches.take(valid_pairs, indices)
    assert torch.equal(taken.source, collate(valid_pairs, indices).source)
    batches.expect(valid_pairs, [indices])
    assert torch.equal(batches.take(valid_pairs, indices).source, taken.source)
    batches.close()


def test_an_error_of_the_thread_is_raised_where_the_batch_is_taken(
    corpus: PreparedCorpus, padded_in: list[str]
) -> None:
    pairs, batches = corpus.pairs("train"), BatchesAhead(CPU)
    indices = np.array([len(pairs)])
    batches.expect(pairs, [indices])
    with pytest.raises(IndexError):
        batches.take(pairs, indices)
    batches.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("dropout", [0.0, 0.3], ids=["plain", "BPE-dropout"])
def test_a_run_with_the_thread_has_the_same_bytes(
    dropout: float, nouns: PreparedCorpus, make_config: Any, padded_in: list[str], tmp_path: Path
) -> None:
    config = make_config(batch_tokens=40, micro_batch_tokens=15, bpe_dropout=dropout)
    train(config, data=nouns.folder, run=tmp_path / "ahead", device="cpu")
    assert len(padded_in) > padded_in.count("MainThread")
    assert threads() == []
    ahead.WITH_THREAD.clear()
    train(config, data=nouns.folder, run=tmp_path / "plain", device="cpu")
    weights = [
        (Run(tmp_path / name).checkpoint("last").folder / WEIGHTS).read_bytes()
        for name in ("ahead", "plain")
    ]
    assert weights[0] == weights[1]


def test_the_thread_ends_with_a_training_that_fails(
    corpus: PreparedCorpus, make_config: Any, padded_in: list[str], tmp_path: Path
) -> None:
    asked = iter([False] * 5)

    def should_stop() -> bool:
        if next(asked, None) is None:
            raise KeyError("a failure")
        return False

    with pytest.raises(KeyError):
        train(
            make_config(max_updates=500),
            data=corpus.folder,
            run=tmp_path / "run",
            device="cpu",
            should_stop=should_stop,
        )
    assert padded_in
    assert threads() == []
