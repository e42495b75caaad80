"""`BatchSampler`: groups pairs of similar length, so that batches are full and have little padding.

Pairs are sorted by length (ties broken at random in every epoch), cut into batches that keep within
the budgets, and the batches shuffled. The order is a pure function of seed and epoch: a run resumes
in the middle of an epoch where it stopped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jtrans.errors import ConfigError

# Without joint positions a batch has at most this many times `max_tokens` padded source tokens:
# an encoder needs less memory per token than a decoder with its logits, and batches of ordinary
# text, whose sides are about equally long, stay whole.
SOURCE_FACTOR = 2


class BatchSampler:
    """Cuts a split into batches within a budget of target tokens and of joint positions.

    A batch of B pairs costs B x T padded target tokens and, for joint models, B x S x T padded
    positions, S and T being its longest source and target. A single pair over a budget forms a
    batch of its own. Every pair occurs exactly once per epoch.

    Args:
        source_lengths: source tokens of each pair, EOS counted.
        target_lengths: target tokens of each pair, EOS counted.
        max_tokens: padded target tokens of a batch.
        max_joint: padded joint positions of a batch; None for models without joint states.
        overhead: the fixed cost of a joint batch, in positions: a low one (a CPU) favours small
            batches of equal lengths, a high one (a GPU) large batches.
        seed: with the epoch, decides ties and the order of batches.

    Raises:
        ConfigError: a budget is less than 1.
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
    ) -> None:
        for name, value in (("max_tokens", max_tokens), ("max_joint", max_joint)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} {value} is less than 1")
        self.source_lengths = np.asarray(source_lengths, dtype=np.int64)
        self.target_lengths = np.asarray(target_lengths, dtype=np.int64)
        self.max_tokens = max_tokens
        self.max_joint = max_joint
        self.overhead = overhead
        self.seed = seed

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the batches of `epoch`, each as indices into the split, [B]."""
        random = np.random.default_rng([self.seed, epoch])
        order = self._sorted(random)
        batches = np.split(order, self._cuts(order))
        return [batches[index] for index in random.permutation(len(batches))]

    def cut_by_source(self, batch: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cut a batch of long sources, [B], into parts of `SOURCE_FACTOR x max_tokens` tokens.

        A batch is filled by its targets: 2,048 targets of two tokens may have sources of 150.
        Batches are cut after they were put in order, so updates hold the same pairs as uncut.
        The budget of joint positions limits both sides already.
        """
        parts: list[NDArray[np.int64]] = []
        budget = SOURCE_FACTOR * self.max_tokens
        while self.max_joint is None and batch.size:
            count = _fitting(np.maximum.accumulate(self.source_lengths[batch]), budget)
            parts.append(batch[:count])
            batch = batch[count:]
        return parts or [batch]

    def _sorted(self, random: np.random.Generator) -> NDArray[np.int64]:
        # Boustrophedon: the inner length rises in one group and falls in the next, so that a
        # batch that spans two groups holds pairs of similar inner lengths.
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
        """Return how many of the next pairs make a batch: as many as fit, or the cheapest number.

        A joint batch costs its padded positions and an overhead; the cheapest one has the least
        cost per real position. That ends a batch before longer sentences and keeps S equal where
        that pays.
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


def _fitting(longest: NDArray[np.int64], budget: int) -> int:
    """Return how many pairs fit, at least one; `longest[i]` is the padded size of each of `i+1`."""
    sizes = np.arange(1, longest.size + 1) * longest  # never falls
    return max(1, int(np.searchsorted(sizes, budget, side="right")))
