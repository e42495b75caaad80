"""Deal the micro-batches of an update out to ranks.

Every rank computes the same result from the same list, without communication. The sentences of an
update are laid out in their order along a line, by cost, and every rank gets a stretch of equal
cost. So at most one micro-batch is cut for each border between two ranks, and even a single
micro-batch is shared by all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jtrans.training.updates import MicroBatch

# A border of a rank this close to one of a micro-batch, in parts of a rank's share, is moved there:
# a micro-batch of a few sentences takes nearly as long as one of many.
SLIVER = 0.125


def deal(
    micro_batches: Sequence[MicroBatch], costs: Sequence[float], ranks: int
) -> list[list[MicroBatch]]:
    """Return the micro-batches of every rank; together they have each sentence once.

    A rank gets none if there are fewer sentences than ranks.

    Args:
        micro_batches: of one update, as indices into the split.
        costs: the cost of each.
        ranks: how many ranks there are.
    """
    share = sum(costs) / ranks
    dealt: list[list[MicroBatch]] = [[] for _ in range(ranks)]
    start = 0.0
    for micro_batch, cost in zip(micro_batches, costs, strict=True):
        first, last = start / share, (start + cost) / share
        cuts = [
            round((_snapped(border, first, last) - first) / (last - first) * micro_batch.size)
            for border in range(1, ranks)
        ]
        for rank_parts, part in zip(dealt, np.split(micro_batch, cuts), strict=True):
            if part.size:
                rank_parts.append(part)
        start += cost
    return dealt


def deal_evenly(
    micro_batches: Sequence[MicroBatch], costs: Sequence[float], ranks: int
) -> list[tuple[list[MicroBatch], int]]:
    """Return equally many micro-batches for every rank, and how many of its last are idle.

    Ranks with sharded weights gather them together, in every pass. A rank with fewer micro-batches
    halves its largest ones; if it has too few sentences, it adds idle passes of the update's first
    sentence, which must not be counted.
    """
    dealt = deal(micro_batches, costs, ranks)
    most = max(len(rank_parts) for rank_parts in dealt)
    spare = micro_batches[0][:1]
    even = []
    for rank_parts in dealt:
        while len(rank_parts) < most and any(part.size > 1 for part in rank_parts):
            largest = max(range(len(rank_parts)), key=lambda number: rank_parts[number].size)
            rank_parts[largest : largest + 1] = np.array_split(rank_parts[largest], 2)
        idle = most - len(rank_parts)
        even.append(([*rank_parts, *[spare] * idle], idle))
    return even


def _snapped(border: float, first: float, last: float) -> float:
    if border - first < SLIVER:
        return first
    return last if last - border < SLIVER else border
