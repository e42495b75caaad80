"""What training would take, found out by timing a few passes: `jtrans train --dry-run`."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training.events import SilentEvents
from jtrans.training.memory import memory_errors, peak_memory
from jtrans.training.session import make_trainer

if TYPE_CHECKING:
    from pathlib import Path

    from jtrans.config import Config
    from jtrans.training.trainer import Trainer
    from jtrans.training.updates import MicroBatch

QUANTILES = (0.125, 0.375, 0.625, 0.875)  # the passes timed, by cost


@dataclass(frozen=True)
class Estimate:
    """What training would take.

    Attributes:
        system: the system's name.
        parameters: trainable numbers.
        device: one line about device and precision.
        pairs: sentence pairs of an epoch; `tokens` their target tokens.
        updates: updates of an epoch; `passes` passes.
        largest: sentences, source and target length and positions of the largest pass.
        memory_bytes: peak of the GPU, or of this process, with the largest pass.
        tokens_per_second: real target tokens.
        positions_per_second: padded joint positions; None for systems without them.
        epoch_seconds: one epoch, without validation.
        total_seconds: until the first of the limits; None if none of them tells.
    """

    system: str
    parameters: int
    device: str
    pairs: int
    tokens: int
    updates: int
    passes: int
    largest: dict[str, int]
    memory_bytes: int
    tokens_per_second: float
    positions_per_second: float | None
    epoch_seconds: float
    total_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain values."""
        return dataclasses.asdict(self)


def estimate(config: Config, *, data: Path, device: str | None = None) -> Estimate:
    """Estimate rate, time and memory; trains nothing and writes nothing.

    Raises:
        JtransError: what `train` would refuse, it refuses, too.
        WorkError: the largest pass does not fit into memory.
    """
    corpus = PreparedCorpus.open(data)
    trainer, facts = make_trainer(Run(data), config, corpus, device=device, events=SilentEvents())
    trainer.model.train()
    epoch = trainer.plan.epoch(0)
    passes = [one for update in epoch for one in update]
    costs = [_cost(trainer, one) for one in passes]
    ranked = [passes[index] for index in np.argsort(costs, kind="stable")]
    chosen = [ranked[int(quantile * len(ranked))] for quantile in QUANTILES]
    with memory_errors():
        pass_seconds, step_seconds = _time(trainer, chosen)
        largest = _measure_largest(trainer, ranked[-1])
    seconds = pass_seconds * sum(costs) / sum(_cost(trainer, one) for one in chosen)
    seconds += step_seconds * len(epoch)
    tokens = trainer.plan.tokens(passes)
    is_joint = trainer.model.is_joint
    updates = trainer.stopping.total_updates(trainer.state, len(epoch))
    return Estimate(
        system=config.model.system,
        parameters=trainer.model.parameter_count(),
        device=facts.describe(trainer.precision),
        pairs=len(trainer.pairs),
        tokens=tokens,
        updates=len(epoch),
        passes=len(passes),
        largest=largest,
        memory_bytes=peak_memory(trainer.model.device),
        tokens_per_second=tokens / seconds,
        positions_per_second=trainer.plan.positions(passes) / seconds if is_joint else None,
        epoch_seconds=seconds,
        total_seconds=trainer.stopping.seconds_left(trainer.state, updates, seconds / len(epoch)),
    )


def _cost(trainer: Trainer, one: MicroBatch) -> int:
    return trainer.plan.positions([one]) if trainer.model.is_joint else trainer.plan.tokens([one])


def _time(trainer: Trainer, passes: list[MicroBatch]) -> tuple[float, float]:
    """Return the seconds of all `passes` together, and of one optimiser step."""
    _run(trainer, passes[0])  # the first time, memory is found and kernels are loaded
    pass_seconds = sum(_run(trainer, one)[0] for one in passes)
    return pass_seconds, _run(trainer, passes[0])[1]


def _measure_largest(trainer: Trainer, one: MicroBatch) -> dict[str, int]:
    _run(trainer, one)
    sampler = trainer.plan.sampler
    return {
        "sentences": int(one.size),
        "source": int(sampler.source_lengths[one].max()),
        "target": int(sampler.target_lengths[one].max()),
        "positions": trainer.plan.positions([one]),
    }


def _run(trainer: Trainer, one: MicroBatch) -> tuple[float, float]:
    """Return the seconds of a pass and of an optimiser step at rate 0."""
    start = time.perf_counter()
    trainer.accumulate([one], trainer.plan.tokens([one]))
    _finish(trainer)
    middle = time.perf_counter()
    trainer.step(0.0)
    _finish(trainer)
    return middle - start, time.perf_counter() - middle


def _finish(trainer: Trainer) -> None:
    if trainer.model.device.type == "cuda":
        torch.cuda.synchronize(trainer.model.device)
