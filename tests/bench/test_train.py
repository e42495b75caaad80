"""Measuring training: what is counted, and the memory of a position."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from jtrans.bench.flops import training_flops
from jtrans.bench.machine import peak_during
from jtrans.bench.train import count, measure_train, memory_micro_batches
from jtrans.data.prepared import PreparedCorpus
from jtrans.nn.memory import process_memory
from jtrans.progress import Silent
from jtrans.training.updates import UpdatePlan

CPU = torch.device("cpu")


def test_real_and_padded_work_is_counted(corpus: PreparedCorpus, make_config: Any) -> None:
    pairs = corpus.pairs("train")
    S, T = pairs.source.lengths, pairs.target.lengths
    short, long = int(np.lexsort((T, S))[0]), int(np.lexsort((T, S))[-1])
    flops = training_flops(make_config("reformer-base", {"tie": "none"}).model, 40, 40)
    apart = count(flops, pairs, [np.array([short]), np.array([long])])
    together = count(flops, pairs, [np.array([short, long])])
    assert apart.positions == together.positions == S[short] * T[short] + S[long] * T[long]
    assert apart.padded_positions == apart.positions
    assert together.padded_positions == 2 * S[long] * max(T[short], T[long])
    assert together.tokens == T[short] + T[long] <= together.padded_tokens
    assert apart.flops == pytest.approx(together.flops)


@pytest.mark.parametrize(
    "system", [pytest.param("transformer", marks=pytest.mark.slow), "reformer-fast"]
)
def test_a_measurement_is_of_the_whole_epoch_s_padding(
    system: str, corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(system, micro_batch_tokens=30)
    measured = measure_train(
        config, data=corpus.folder, device="cpu", seconds=0.05, progress=Silent()
    )
    pairs = corpus.pairs("train")
    is_joint = system != "transformer"
    plan = UpdatePlan(pairs, config.training, is_joint=is_joint)
    micro_batches = [micro_batch for update in plan.epoch(0) for micro_batch in update]
    padded = sum(len(each) * int(pairs.target.lengths[each].max()) for each in micro_batches)
    assert measured.token_padding == pytest.approx(1 - pairs.target.lengths.sum() / padded)
    assert measured.updates >= 1 and measured.seconds >= 0.05
    assert 0 < measured.product_share < 1
    if is_joint:
        real = int((pairs.source.lengths * pairs.target.lengths).sum())
        assert measured.position_padding == pytest.approx(1 - real / plan.positions(micro_batches))
        assert measured.positions_per_second and measured.padded_positions_per_second
        assert measured.positions_per_second <= measured.padded_positions_per_second
    else:
        assert measured.position_padding is measured.positions_per_second is None


@pytest.mark.parametrize("is_joint", [True, False])
def test_memory_is_measured_on_micro_batches_without_padding(
    is_joint: bool, corpus: PreparedCorpus
) -> None:
    pairs = corpus.pairs("train")
    small, large = memory_micro_batches(pairs, is_joint=is_joint, limit=600)
    for chosen in (small, large):
        assert len({*pairs.source.lengths[chosen]}) == len({*pairs.target.lengths[chosen]}) == 1
    cost = pairs.target.lengths[large[0]] * (pairs.source.lengths[large[0]] if is_joint else 1)
    assert len(small) < len(large) and len(large) * cost <= 600


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says")
def test_the_peak_of_some_work_is_what_it_held_at_once() -> None:
    size = 64 * 2**20

    def work() -> None:
        for _ in range(3):  # one after the other
            np.ones(size, dtype=np.uint8)

    measured = peak_during(work, CPU)
    assert measured is not None and 0.9 * size < measured < 1.6 * size


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says")
def test_the_peak_is_of_updates_and_not_of_other_measurements(
    corpus: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 256 * 2**20

    def probe(_: object) -> int:
        return len(np.ones(size, dtype=np.uint8))

    monkeypatch.setattr("jtrans.bench.train.measure_memory", probe)
    before = process_memory("VmRSS")
    measured = measure_train(
        make_config("transformer"),
        data=corpus.folder,
        device="cpu",
        seconds=0.01,
        progress=Silent(),
    )
    assert before and measured.peak_bytes and measured.peak_bytes < before + 0.9 * size
