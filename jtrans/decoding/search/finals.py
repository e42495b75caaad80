"""Which hypotheses are final, and which sentences are done: the two rules that end a search."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.candidates import Continuations
from jtrans.text.vocabulary import EOS

Divisor = float | Tensor  # that of log-probabilities at a length; a tensor has one element


class Finals:
    """The final hypotheses of A sentences; everything is updated in place.

    Args:
        sentences: A.
        options: beam, nbest and stopping rule.
        groups: number of groups of the beam.
        device: where the search runs.
    """

    def __init__(
        self, sentences: int, options: SearchOptions, groups: int, device: torch.device
    ) -> None:
        self._beam, self._groups = options.beam, groups
        self._counts = options.stopping == "count"
        self.done = torch.zeros(sentences, dtype=torch.bool, device=device)  # [A]
        # the number of final hypotheses of each group of the beam, [A, groups]
        self.count = torch.zeros(sentences, groups, dtype=torch.int64, device=device)
        # the best scores of final hypotheses, as many as will be returned, [A, nbest]
        self.scores = torch.full((sentences, options.nbest), -math.inf, device=device)

    def add(self, best: Continuations, divisor: Divisor) -> Tensor:
        """Add the continuations that end, and mark sentences that have enough of them.

        Args:
            best: the best 2k of each sentence.
            divisor: that of log-probabilities at their length.

        Returns:
            Where hypotheses end, [A, k].
        """
        k = self._beam
        ends = (best.token[:, :k] == EOS) & (best.total[:, :k] > -math.inf) & ~self.done[:, None]
        if self._counts:
            # the original code keeps the first k to end, in order of rank
            by_group = ends.view(ends.shape[0], self._groups, -1)
            most = k // self._groups
            by_group &= self.count[..., None] + by_group.cumsum(2) <= most
            self.count += by_group.sum(2)
            self.done |= (self.count >= most).all(1)
        else:
            scores = best.total[:, :k] / divisor
            both = torch.cat([self.scores, scores.masked_fill(~ends, -math.inf)], dim=1)
            self.scores.copy_(both.topk(self.scores.shape[1]).values)
        return ends

    def close(self, total: Tensor, next_divisor: Divisor, last_divisor: Tensor) -> None:
        """Mark the sentences whose survivors cannot change the result, or that have none.

        Sums of log-probabilities only decrease, and what divides them is monotonic in the length:
        the highest score that a survivor can still reach is that at the next step or at the limit.

        Args:
            total: summed log-probabilities of the survivors, [A, k].
            next_divisor: that of log-probabilities at the next length.
            last_divisor: that at the limit of each sentence, [A].
        """
        best = total.amax(1)
        self.done |= best == -math.inf  # a tiny vocabulary can run out of hypotheses
        if not self._counts:
            highest = torch.maximum(best / next_divisor, best / last_divisor)
            self.done |= self.scores[:, -1] >= highest

    def keep(self, sentences: Tensor) -> None:
        """Keep some sentences, [A']."""
        self.done, self.count = self.done[sentences], self.count[sentences]
        self.scores = self.scores[sentences]

    def load(self, other: Finals) -> None:
        """Copy the sentences of `other`, as many as fit; mark the remaining ones as done."""
        A = min(len(self.done), len(other.done))
        self.done.fill_(True)[:A] = other.done[:A]
        self.count[:A] = other.count[:A]
        self.scores[:A] = other.scores[:A]
