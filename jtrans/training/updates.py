"""Which passes make up an update.

The batch sampler cuts an epoch into passes that fit into memory. Consecutive passes are joined
until an update has about `batch_tokens` target tokens; their gradients add up. Like the passes,
the updates are a pure function of seed and epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jtrans.data.bucketing import BatchSampler

if TYPE_CHECKING:
    from jtrans.config import TrainingConfig
    from jtrans.data.prepared import ParallelIds

Pass = NDArray[np.int64]  # indices into the split


class UpdatePlan:
    """The updates of every epoch.

    Args:
        pairs: the training split.
        training: the budgets and the seed.
        is_joint: whether joint positions are bounded, too.
    """

    def __init__(self, pairs: ParallelIds, training: TrainingConfig, *, is_joint: bool) -> None:
        self.pairs = pairs
        self.batch_tokens = training.batch_tokens
        self.sampler = BatchSampler(
            pairs.source.lengths,
            pairs.target.lengths,
            max_tokens=min(
                training.micro_batch_tokens or training.batch_tokens, training.batch_tokens
            ),
            max_joint=training.micro_batch_joint if is_joint else None,
            overhead=training.micro_batch_overhead,
            seed=training.seed,
        )

    def epoch(self, epoch: int) -> list[list[Pass]]:
        """Return the updates of `epoch`, each a list of passes (indices into the split)."""
        passes = self.sampler.batches(epoch)
        return group_passes(passes, [self.tokens([one]) for one in passes], self.batch_tokens)

    def tokens(self, passes: Sequence[Pass]) -> int:
        """Count the real target tokens of some passes, EOS counted."""
        return sum(int(self.sampler.target_lengths[one].sum()) for one in passes)

    def positions(self, passes: Sequence[Pass]) -> int:
        """Count the padded positions B x S x T of some passes."""
        return sum(padded_size(self.pairs, one, is_joint=True) for one in passes)


def padded_size(pairs: ParallelIds, indices: Pass, *, is_joint: bool) -> int:
    """Return the padded joint positions B x S x T of a pass, or its padded target tokens B x T."""
    size = indices.size * int(pairs.target.lengths[indices].max())
    return size * int(pairs.source.lengths[indices].max()) if is_joint else size


def group_passes(
    passes: Sequence[Pass], tokens: Sequence[int], batch_tokens: int
) -> list[list[Pass]]:
    """Join consecutive passes to updates of about `batch_tokens` tokens, none left out.

    A pass goes into the update that it brings nearer to the budget. A rest of less than half
    the budget joins the last update: alone, its noisy gradient would count as much as any.
    """
    updates: list[list[Pass]] = []
    current: list[Pass] = []
    filled = 0
    for one, count in zip(passes, tokens, strict=True):
        if current and 2 * filled + count >= 2 * batch_tokens:
            updates.append(current)
            current, filled = [], 0
        current.append(one)
        filled += count
    if updates and 2 * filled < batch_tokens:
        updates[-1].extend(current)
    elif current:
        updates.append(current)
    return updates
