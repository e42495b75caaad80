"""Group micro-batches into updates.

The batch sampler divides an epoch into micro-batches. Consecutive ones are grouped until an update
has about `batch_tokens` target tokens, and their gradients add up. Micro-batches of long sources,
and those too large for the machine, are cut. All this is a pure function of seed and epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jtrans.config import Config, TrainingConfig
from jtrans.data.bucketing import BatchSampler
from jtrans.data.ids import ParallelIds

MicroBatch = NDArray[np.int64]  # indices into the split


# Defaults by device. IWSLT14's Reformer-fast on two CPU cores is slower with micro-batches of a
# GPU's size, and needs many times the memory. An H100 computes 65,536 positions of Reformer-base
# (E = 256) in 25 ms, but without graphs the CPU takes 44 ms to launch its layers, whatever their
# size: the GPU would idle. Twice as many positions take some 15 GB; what does not fit is cut.
CPU_SIZES = {"micro_batch_joint": 8_000, "micro_batch_overhead": 200}
GPU_SIZES = {"micro_batch_joint": 131_072, "micro_batch_overhead": 20_000}


def with_sizes(config: Config, device: str, run: Config | None = None) -> Config:
    """Return the configuration with the micro-batch sizes that it leaves open filled in.

    Args:
        config: the configuration.
        device: the type of the device, such as "cpu".
        run: the configuration of the run to continue, whose sizes are kept; None for a new run.
    """
    sizes = run.training.model_dump() if run else CPU_SIZES if device == "cpu" else GPU_SIZES
    missing = [name for name in CPU_SIZES if getattr(config.training, name) is None]
    return config.with_training(**{name: sizes[name] for name in missing})


class UpdatePlan:
    """The updates of every epoch.

    Args:
        pairs: the training split.
        training: the settings, with all sizes.
        is_joint: whether the model is joint, so that joint positions are limited, too.
        largest: the padded size above which micro-batches are cut into equal parts; None if none
            are. It does not change which sentences an update has.
    """

    def __init__(
        self,
        pairs: ParallelIds,
        training: TrainingConfig,
        *,
        is_joint: bool,
        largest: int | None = None,
    ) -> None:
        self.pairs = pairs
        self.is_joint = is_joint
        self.largest = largest
        self.batch_tokens = training.batch_tokens
        self.normalise = training.normalise
        passes = 2 if training.r_drop else 1  # of each pair, in the same micro-batch
        tokens = min(training.micro_batch_tokens or training.batch_tokens, training.batch_tokens)
        joint = training.micro_batch_joint if is_joint else None
        self.sampler = BatchSampler(
            pairs.source.lengths,
            pairs.target.lengths,
            max_tokens=max(1, tokens // passes),
            max_joint=None if joint is None else max(1, joint // passes),
            overhead=training.micro_batch_overhead or CPU_SIZES["micro_batch_overhead"],
            seed=training.seed,
        )

    def describe(self) -> str:
        """Return the limits of a micro-batch, for example ``4,096 target tokens``."""
        joint = self.sampler.max_joint
        positions = "" if joint is None else f", {joint:,} joint positions"
        unit = "joint positions" if self.is_joint else "source and target tokens"
        parts = "" if self.largest is None else f", in parts of {self.largest:,} {unit}"
        return f"{self.sampler.max_tokens:,} target tokens{positions}{parts}"

    def epoch(self, epoch: int) -> list[list[MicroBatch]]:
        """Return the updates of `epoch`, each a list of micro-batches."""
        micro_batches = self.sampler.batches(epoch)
        tokens = [self.tokens([micro_batch]) for micro_batch in micro_batches]
        updates = group_micro_batches(micro_batches, tokens, self.batch_tokens)
        return [
            [
                part
                for micro_batch in update
                for whole in self.sampler.cut_by_source(micro_batch)
                for part in self._parts(whole)
            ]
            for update in updates
        ]

    def _parts(self, micro_batch: MicroBatch) -> list[MicroBatch]:
        count = 1 if self.largest is None else math.ceil(self.size(micro_batch) / self.largest)
        return np.array_split(micro_batch, min(count, micro_batch.size))

    def size(self, micro_batch: MicroBatch) -> int:
        """Return the padded size of a micro-batch, see `padded_size`."""
        return padded_size(self.pairs, micro_batch, is_joint=self.is_joint)

    def tokens(self, micro_batches: Sequence[MicroBatch]) -> int:
        """Count the real target tokens of some micro-batches, including EOS."""
        return sum(int(self.sampler.target_lengths[indices].sum()) for indices in micro_batches)

    def divisor(self, micro_batches: Sequence[MicroBatch]) -> int:
        """Return the divisor of the summed loss of an update: its target tokens or sentences."""
        if self.normalise == "token":
            return self.tokens(micro_batches)
        return sum(int(indices.size) for indices in micro_batches)

    def positions(self, micro_batches: Sequence[MicroBatch]) -> int:
        """Count the padded positions B x S x T of some micro-batches."""
        return sum(padded_size(self.pairs, indices, is_joint=True) for indices in micro_batches)


def padded_size(pairs: ParallelIds, indices: MicroBatch, *, is_joint: bool) -> int:
    """Return the size of a micro-batch: joint positions B x S x T, or tokens B x (S + T)."""
    S, T = (int(side.lengths[indices].max()) for side in (pairs.source, pairs.target))
    return int(indices.size) * (S * T if is_joint else S + T)


def group_micro_batches(
    micro_batches: Sequence[MicroBatch], tokens: Sequence[int], batch_tokens: int
) -> list[list[MicroBatch]]:
    """Group consecutive micro-batches into updates of about `batch_tokens` target tokens.

    A micro-batch joins the current update if that brings it closer to `batch_tokens`. A remainder
    of less than half of them is added to the last update: as an update of its own, its noisy
    gradient would have the same weight. No micro-batch is left out. `tokens` are the target tokens
    of each.
    """
    updates: list[list[MicroBatch]] = []
    current: list[MicroBatch] = []
    filled = 0
    for micro_batch, count in zip(micro_batches, tokens, strict=True):
        if current and 2 * filled + count >= 2 * batch_tokens:
            updates.append(current)
            current, filled = [], 0
        current.append(micro_batch)
        filled += count
    if updates and 2 * filled < batch_tokens:
        updates[-1].extend(current)
    elif current:
        updates.append(current)
    return updates
