"""Diverse beam search (Vijayakumar et al. 2018, Diverse Beam Search, algorithm 1).

The beam is divided into groups, each a beam search of its own. At every step the groups choose one
after the other, and a token that n hypotheses of earlier groups were just continued with loses
n times the strength (Hamming diversity, section 4). The loss only decides what a group keeps:
hypotheses keep the model's own log-probabilities, by which they are ranked at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.candidates import Choice, Continuations, best_continuations, survivors
from jtrans.text.vocabulary import EOS


class DiverseGroups(Choice):
    """The choice of continuations, group by group.

    Args:
        options: the beam, its groups and the strength.
    """

    def __init__(self, options: SearchOptions) -> None:
        super().__init__(options)
        self.groups = options.diverse_groups
        self.strength = options.diversity

    def best(
        self, log_probs: Tensor, total: Tensor, prefix: Tensor, active: Tensor
    ) -> Continuations:
        """Return the continuations to consider, [A, 2k]: the better half of each group first."""
        A, h, V = log_probs.shape
        group_size = self.beam // self.groups
        chosen = log_probs.new_zeros(A, V)  # how often earlier groups chose each token
        parts = []
        for group in range(self.groups):
            # at the first step all groups continue the same hypothesis
            first, size = (0, 1) if h == 1 else (group * group_size, group_size)
            part = self._best_of_group(
                log_probs[:, first : first + size], total[:, first : first + size], chosen
            )
            part.parent += first
            token = survivors(part, 1).token
            is_continued = (token != EOS).to(chosen.dtype)
            chosen.scatter_add_(1, token, is_continued)
            parts.append(part)
        by_half = (
            torch.stack([vars(part)[name].unflatten(1, (2, group_size)) for part in parts], dim=2)
            for name in ("total", "log_prob", "parent", "token")
        )  # [A, 2, groups, group_size]
        return Continuations(*(values.flatten(1).contiguous() for values in by_half))

    def _best_of_group(self, log_probs: Tensor, total: Tensor, chosen: Tensor) -> Continuations:
        group_size = self.beam // self.groups
        best = best_continuations(
            log_probs - self.strength * chosen[:, None], total, 2 * group_size
        )
        loss = self.strength * chosen.gather(1, best.token)
        best.total += loss
        best.log_prob += loss
        return best
