"""`BatchSampler`: which pairs go together, so that a batch is full and little of it is padding.

Pairs are sorted by length (ties at random, anew in every epoch), cut into batches that keep
within the budgets, and the batches shuffled. The order is a pure function of
(seed, epoch, rank, world size): a run resumes in the middle of an epoch where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtrans.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class BatchSampler:
    """Cuts a split into batches within a budget of target tokens and of joint positions.

    A batch of B pairs costs B x T padded target tokens and, for joint models, B x S x T padded
    positions, S and T being its longest source and target. A single pair over a budget forms a
    batch of its own. Every pair comes exactly once per epoch over all ranks, and all ranks get
    the same number of batches, those of one index being of similar cost.

    Args:
        source_lengths: source tokens of each pair, EOS counted.
        target_lengths: target tokens of each pair, EOS counted.
        max_tokens: padded target tokens of a batch.
        max_joint: padded joint positions of a batch; None for models without joint states.
        overhead: what a joint batch costs beside its positions, in positions: with little of it
            small batches of equal lengths pay (a CPU), with much of it large ones (a GPU).
        seed: with the epoch, decides ties and the order of batches.
        rank: which of the processes this is.
        world_size: how many processes share an epoch.
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        max_tokens: int,
        max_joint: int | None,
        overhead: int = 200,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        for name, value in (("max_tokens", max_tokens), ("max_joint", max_joint)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} {value} is less than 1")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank {rank} is not one of {world_size} processes")
        self.source_lengths = np.asarray(source_lengths, dtype=np.int64)
        self.target_lengths = np.asarray(target_lengths, dtype=np.int64)
        if self.source_lengths.shape != self.target_lengths.shape:
            raise ConfigError(
                f"{self.source_lengths.size} source lengths for "
                f"{self.target_lengths.size} target lengths"
            )
        if self.source_lengths.size < world_size:
            raise CorpusError(
                f"{self.source_lengths.size} pairs cannot be shared by {world_size} processes",
                kind="corpus.too-small",
            )
        self.max_tokens = max_tokens
        self.max_joint = max_joint
        self.overhead = overhead
        self.seed = seed
        self.rank = rank
        self.world_size = world_size

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return this rank's batches of `epoch`, each an array of indices into the split."""
        random = np.random.default_rng([self.seed, epoch])
        order = self._sorted(random)
        batches = np.split(order, self._cuts(order))
        _divide(batches, self.world_size)
        if self.world_size > 1:
            # one round = the batches the ranks do at the same time: alike, so that none waits
            batches.sort(key=self._cost)
        rounds = random.permutation(len(batches) // self.world_size)
        return [batches[round_ * self.world_size + self.rank] for round_ in rounds]

    def _sorted(self, random: np.random.Generator) -> NDArray[np.int64]:
        # Boustrophedon: the inner length rises in one group and falls in the next, so that a
        # batch across the border of two groups holds pairs of similar inner lengths.
        if self.max_joint is None:
            outer, inner = self.target_lengths, self.source_lengths
        else:
            outer, inner = self.source_lengths, self.target_lengths
        inner = np.where(outer % 2 == 0, inner, -inner)
        return np.lexsort((random.random(outer.size), inner, outer))

    def _cuts(self, order: NDArray[np.int64]) -> list[int]:
        """Return where in `order` each batch but the first begins."""
        sources, targets = self.source_lengths[order], self.target_lengths[order]
        cuts: list[int] = []
        start = 0
        while start < order.size:
            start += self._batch_size(sources[start:], targets[start:])
            cuts.append(start)
        return cuts[:-1]

    def _batch_size(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> int:
        """Return how many of the next pairs make a batch: all that fit, or the cheapest lot.

        A joint batch costs its padded positions and an overhead; the cheapest lot has the least
        cost per real position. That closes a batch before longer sentences and keeps S equal
        where that pays.
        """
        targets = targets[: self.max_tokens]  # no batch has more pairs than tokens
        if self.max_joint is None:
            return _fitting(np.maximum.accumulate(targets), self.max_tokens)
        targets = targets[: max(1, self.max_joint // int(sources[0]))]
        sources = sources[: targets.size]
        T = np.maximum.accumulate(targets)
        padded = np.maximum.accumulate(sources) * T  # positions of one pair
        count = min(_fitting(T, self.max_tokens), _fitting(padded, self.max_joint))
        real = np.cumsum(sources[:count] * targets[:count])
        cost = np.arange(1, count + 1) * padded[:count] + self.overhead
        return int(np.argmin(cost / real)) + 1

    def _cost(self, batch: NDArray[np.int64]) -> int:
        tokens = int(batch.size * self.target_lengths[batch].max())
        return tokens if self.max_joint is None else tokens * int(self.source_lengths[batch].max())


def _fitting(longest: NDArray[np.int64], budget: int) -> int:
    """Return how many pairs fit, one at least; `longest` is what each takes in a batch so far."""
    sizes = np.arange(1, longest.size + 1) * longest  # never falls
    return max(1, int(np.searchsorted(sizes, budget, side="right")))


def _divide(batches: list[NDArray[np.int64]], world_size: int) -> None:
    """Halve the batches with most pairs until their number is a multiple of `world_size`."""
    while len(batches) % world_size:
        largest = max(range(len(batches)), key=lambda i: batches[i].size)
        batch = batches[largest]
        if batch.size < 2:
            raise CorpusError(
                f"{len(batches)} batches of one pair each cannot be shared evenly "
                f"by {world_size} processes",
                hint="raise the batch budget or use fewer processes",
                kind="corpus.too-small",
            )
        middle = batch.size // 2
        batches[largest : largest + 1] = [batch[:middle], batch[middle:]]
