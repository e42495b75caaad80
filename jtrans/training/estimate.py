"""Estimate the cost of training by timing a few micro-batches: `jtrans train --dry-run`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.nn.device import wait_for
from jtrans.runs import Run
from jtrans.training.feeding.size import largest_size
from jtrans.training.memory import memory_errors, peak_memory
from jtrans.training.setup.build import make_trainer
from jtrans.training.setup.checks import check_rate, check_warmup
from jtrans.training.trainer import Trainer
from jtrans.training.updates import MicroBatch
from jtrans.training.weights.initial import initialise

QUANTILES = (0.125, 0.375, 0.625, 0.875)  # of the cost: the micro-batches that are timed


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of training."""

    system: str
    parameters: int  # trainable parameters
    device: str  # one line about device and precision
    pairs: int  # of an epoch
    tokens: int  # target tokens of an epoch
    updates: int  # of an epoch
    passes: int  # micro-batches of an epoch
    # sentences, source and target length and positions of the largest micro-batch
    largest: dict[str, int]
    memory_bytes: int  # peak of the GPU, or of this process, with the largest micro-batch
    tokens_per_second: float  # real target tokens
    positions_per_second: float | None  # padded joint positions; None for systems without them
    splits: int  # times that a micro-batch did not fit into memory and was split in half
    epoch_seconds: float  # one epoch, without validation
    total_seconds: float | None  # until the first limit of epochs, updates or minutes, if any
    frozen_parameters: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain values."""
        return dataclasses.asdict(self)


def estimate(
    config: Config,
    *,
    data: Path,
    device: str | None = None,
    initial: Run | None = None,
    keep_optimiser: bool = False,
) -> Estimate:
    """Estimate rate, time and memory; no run is trained or written.

    Args:
        config: the recipe.
        data: folder of the prepared corpus.
        device: "auto", "cpu", "cuda" or "mps".
        initial: the run whose weights training would start from.
        keep_optimiser: whether it would start from that run's optimiser, too.

    Raises:
        JtransError: under the same conditions as `train`.
        WorkError: the largest micro-batch does not fit into memory.
    """
    corpus = PreparedCorpus.open_for_training(data)
    trainer, info = make_trainer(
        Run(data), config, corpus, device=device, initial=initial, keep_optimiser=keep_optimiser
    )
    initialise(trainer.model, config, corpus)
    splits: list[int] = []
    accumulator = trainer.gradient.accumulator
    accumulator.on_split = lambda sentences, _: splits.append(sentences)  # not logged
    trainer.plan.largest = largest_size(trainer, config)
    trainer.model.train()
    epoch = trainer.plan_epoch()
    micro_batches = [micro_batch for update in epoch for micro_batch in update]
    costs = [trainer.plan.size(micro_batch) for micro_batch in micro_batches]
    ranked = [micro_batches[index] for index in np.argsort(costs, kind="stable")]
    pass_seconds, step_seconds = _measure(trainer, ranked)
    seconds = pass_seconds * sum(costs) + step_seconds * len(epoch)
    tokens = trainer.plan.tokens(micro_batches)
    is_joint = trainer.model.is_joint
    sampler = trainer.plan.sampler
    updates = trainer.stopping.total_updates(trainer.state, len(epoch))
    return Estimate(
        system=config.model.system,
        parameters=trainer.model.parameter_count(),
        device=info.describe(trainer.precision),
        pairs=len(trainer.pairs),
        tokens=tokens,
        updates=len(epoch),
        passes=len(micro_batches),
        largest={
            "sentences": int(ranked[-1].size),
            "source": int(sampler.source_lengths[ranked[-1]].max()),
            "target": int(sampler.target_lengths[ranked[-1]].max()),
            "positions": trainer.plan.positions([ranked[-1]]),
        },
        memory_bytes=peak_memory(trainer.model.device),
        tokens_per_second=tokens / seconds,
        positions_per_second=trainer.plan.positions(micro_batches) / seconds if is_joint else None,
        epoch_seconds=seconds,
        splits=len(splits),
        frozen_parameters=trainer.model.frozen_count(),
        warnings=(*check_rate(config), *check_warmup(trainer.schedule, updates)),
        total_seconds=trainer.stopping.seconds_left(trainer.state, updates, seconds / len(epoch)),
    )


def _measure(trainer: Trainer, ranked: Sequence[MicroBatch]) -> tuple[float, float]:
    """Return the seconds of a pass per unit of `UpdatePlan.size`, and those of an optimiser step.

    `ranked` are all micro-batches, the cheapest first; memory reaches its peak meanwhile.
    """
    chosen = [ranked[int(quantile * len(ranked))] for quantile in QUANTILES]
    with memory_errors():
        _run(trainer, chosen[0])  # warm-up: allocates memory and loads kernels
        pass_seconds = sum(_run(trainer, micro_batch)[0] for micro_batch in chosen)
        step_seconds = _run(trainer, chosen[0])[1]
        _run(trainer, ranked[-1])  # the peak of memory
    return pass_seconds / sum(map(trainer.plan.size, chosen)), step_seconds


def _run(trainer: Trainer, micro_batch: MicroBatch) -> tuple[float, float]:
    """Return the seconds of a micro-batch and of an optimiser step at rate 0."""
    for _ in range(trainer.gradient.accumulator.warm_ups):
        trainer.accumulate([micro_batch])
    wait_for(trainer.model.device)
    start = time.perf_counter()
    trainer.accumulate([micro_batch])
    wait_for(trainer.model.device)
    middle = time.perf_counter()
    trainer.step(0.0)
    wait_for(trainer.model.device)
    return middle - start, time.perf_counter() - middle
