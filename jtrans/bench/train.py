"""Training speed and efficiency on this machine: `jtrans bench train`."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jtrans.bench.flops import TrainingFlops, training_flops
from jtrans.bench.machine import peak_during, product_rate, release_memory, restart_peak
from jtrans.config import Config
from jtrans.data.ids import ParallelIds
from jtrans.data.prepared import PreparedCorpus
from jtrans.nn.device import wait_for
from jtrans.progress import Progress
from jtrans.runs import Run
from jtrans.training.feeding.size import largest_size
from jtrans.training.memory import memory_errors, peak_memory
from jtrans.training.setup.build import make_trainer
from jtrans.training.trainer import Trainer
from jtrans.training.updates import MicroBatch

# Padded joint positions, or target tokens, of the larger micro-batch whose memory is measured.
MEMORY_POSITIONS = {"cpu": 12_000, "cuda": 200_000}
MEMORY_TOKENS = {"cpu": 2_000, "cuda": 16_000}
GRAPH_UPDATES = 20  # that are captured as CUDA graphs and repeated


@dataclass(frozen=True)
class TrainMeasurement:
    """The measurements of a model in training.

    Positions, their rate and their padding are None for systems without joint positions.
    """

    system: str
    parameters: int  # trainable parameters
    device: str  # one line about device and precision
    pairs: int  # sentence pairs of an epoch
    updates: int  # done in `seconds`
    seconds: float
    tokens_per_second: float  # real target tokens
    positions_per_second: float | None  # real joint positions S x T
    padded_positions_per_second: float | None
    flops_per_second: float  # of the model on real tokens, see `bench.flops`
    # of matrix products of the model's sizes, measured between the updates
    product_flops_per_second: float
    token_padding: float  # share of an epoch's target tokens that is padding
    position_padding: float | None  # share of an epoch's joint positions that is padding
    # most memory in use during updates by this process, or on the GPU; like the next two, None if
    # the operating system does not report it
    peak_bytes: int | None
    bytes_per_position: int | None  # memory of one more position in a micro-batch
    bytes_per_token: int | None  # memory of one more target token, in systems without positions

    @property
    def product_share(self) -> float:
        """The model's FLOP/s as a share of this machine's FLOP/s of matrix products alone."""
        return self.flops_per_second / self.product_flops_per_second

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as plain values."""
        return {**dataclasses.asdict(self), "product_share": self.product_share}


@dataclass
class Amounts:
    """Work done: real and padded target tokens and joint positions, and the model's FLOPs."""

    tokens: int = 0
    positions: int = 0
    padded_tokens: int = 0
    padded_positions: int = 0
    flops: float = 0.0


def count(flops: TrainingFlops, pairs: ParallelIds, micro_batches: Sequence[MicroBatch]) -> Amounts:
    """Count the work in `micro_batches`, arrays of indices into `pairs`."""
    amounts = Amounts()
    for indices in micro_batches:
        S, T = pairs.source.lengths[indices], pairs.target.lengths[indices]
        amounts.tokens += int(T.sum())
        amounts.positions += int((S * T).sum())
        amounts.padded_tokens += int(len(T) * T.max())
        amounts.padded_positions += int(len(T) * T.max() * S.max())
        amounts.flops += flops(S, T)
    return amounts


def measure_train(
    config: Config, *, data: Path, device: str | None, seconds: float, progress: Progress
) -> TrainMeasurement:
    """Do real updates for about `seconds` and measure them; no run is written.

    Raises:
        JtransError: under the same conditions as `train`.
        WorkError: memory ran out.
    """
    corpus = PreparedCorpus.open_for_training(data)
    trainer, info = make_trainer(Run(data), config, corpus, device=device)
    trainer.plan.largest = largest_size(trainer, config)
    trainer.model.train()
    epoch = trainer.plan_epoch()
    flops = training_flops(config.model, *corpus.pipeline.vocabulary_sizes)
    with memory_errors():
        per_unit = measure_memory(trainer)
        clock, updates, products, peak = _time_updates(trainer, epoch, seconds, progress)
    done = count(flops, trainer.pairs, list(itertools.chain(*updates)))
    whole = count(flops, trainer.pairs, list(itertools.chain(*epoch)))
    is_joint = trainer.model.is_joint
    return TrainMeasurement(
        system=config.model.system,
        parameters=trainer.model.parameter_count(),
        device=info.describe(trainer.precision),
        pairs=len(trainer.pairs),
        updates=len(updates),
        seconds=clock,
        tokens_per_second=done.tokens / clock,
        positions_per_second=done.positions / clock if is_joint else None,
        padded_positions_per_second=done.padded_positions / clock if is_joint else None,
        flops_per_second=done.flops / clock,
        product_flops_per_second=products,
        token_padding=1.0 - whole.tokens / whole.padded_tokens,
        position_padding=1.0 - whole.positions / whole.padded_positions if is_joint else None,
        peak_bytes=peak or None,
        bytes_per_position=per_unit if is_joint else None,
        bytes_per_token=None if is_joint else per_unit,
    )


def _time_updates(
    trainer: Trainer, epoch: list[list[MicroBatch]], seconds: float, progress: Progress
) -> tuple[float, list[list[MicroBatch]], float, int]:
    """Return the seconds, the updates done in them, the FLOPs per second of products, and the peak.

    The peak is of the updates alone: other measurements need more memory than training does.
    """
    device = trainer.model.device
    warm_ups = trainer.gradient.accumulator.warm_ups
    if warm_ups:  # training repeats all updates many times, for which there is no time here
        epoch = epoch[:GRAPH_UPDATES]
    release_memory()
    for update in epoch[:1] + epoch * warm_ups:  # allocates memory, loads kernels, captures graphs
        run_update(trainer, update, 1)
    clock, products, peak = 0.0, 0.0, 0
    updates: list[list[MicroBatch]] = []
    while clock < seconds:
        micro_batches = epoch[(len(updates) + 1) % len(epoch)]
        restart_peak(device)
        start = time.perf_counter()
        run_update(trainer, micro_batches, len(updates) + 2)
        clock += time.perf_counter() - start
        peak = max(peak, peak_memory(device))
        updates.append(micro_batches)
        products = max(products, product_rate(trainer.model, trainer.precision))
        progress.advance("Training", min(round(clock), round(seconds)), round(seconds))
    return clock, updates, products, peak


def run_update(trainer: Trainer, micro_batches: Sequence[MicroBatch], number: int) -> None:
    """Do one update with the trainer's own parts and wait for it."""
    trainer.accumulate(micro_batches)
    trainer.step(trainer.schedule.rate(number))
    wait_for(trainer.model.device)


def measure_memory(trainer: Trainer) -> int | None:
    """Return the bytes that one more joint position (or target token) of a micro-batch needs.

    This is the slope between two micro-batches of different sizes, which leaves out weights,
    gradients and the optimiser's state. None if the operating system does not report memory.
    """
    device, is_joint = trainer.model.device, trainer.model.is_joint
    limits = MEMORY_POSITIONS if is_joint else MEMORY_TOKENS
    small, large = memory_micro_batches(
        trainer.pairs, is_joint=is_joint, limit=limits.get(device.type, limits["cuda"])
    )
    run_update(trainer, [small], 1)  # allocates gradients and the optimiser's state

    def needs(micro_batch: MicroBatch) -> int | None:
        return peak_during(lambda: trainer.accumulate([micro_batch]), device)

    first, second = needs(small), needs(large)
    trainer.step(0.0)  # clears the gradient
    if first is None or second is None:
        return None
    pairs = trainer.pairs
    cost = int(pairs.target.lengths[large[0]])
    if is_joint:
        cost *= int(pairs.source.lengths[large[0]])
    return round((second - first) / (cost * (len(large) - len(small))))


def memory_micro_batches(
    pairs: ParallelIds, *, is_joint: bool, limit: int
) -> tuple[MicroBatch, MicroBatch]:
    """Return a small and a large micro-batch without padding: pairs of equal lengths.

    The larger one has at most about `limit` joint positions, or target tokens.
    """
    S, T = pairs.source.lengths, pairs.target.lengths
    shapes, of_shape, counts = np.unique(
        np.stack([S, T], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    cost = shapes[:, 1] * (shapes[:, 0] if is_joint else 1)
    size = np.minimum(counts * cost, limit)  # the most that the pairs of each shape can fill
    best = int(np.lexsort((cost, size))[-1])
    count = max(2, int(limit // cost[best]))
    chosen = np.resize(np.flatnonzero(of_shape.ravel() == best), count).astype(np.int64)
    return chosen[: max(1, count // 3)], chosen
