"""The best continuations of the hypotheses of each sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.decoding.options import SearchOptions
from jtrans.text.vocabulary import EOS, PAD

# First the maximum over 8 parts of the vocabulary, then the best columns: on a CPU this takes a
# quarter of the time of one topk over everything. Vocabulary sizes are multiples of 8.
PARTS = 8


@dataclass
class Continuations:
    """The best 2k continuations of each sentence, best first; missing ones have a total of -inf.

    If the beam is divided into groups, the first k are the best k / groups of each group, group by
    group, and the others are the next best of each.
    """

    total: Tensor  # summed log-probability with this token, [A, 2k]
    log_prob: Tensor  # log-probability of the token alone, [A, 2k]
    parent: Tensor  # the hypothesis of the sentence that it continues, [A, 2k]
    token: Tensor  # [A, 2k]

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return all values."""
        return self.total, self.log_prob, self.parent, self.token

    def first(self, count: int) -> Continuations:
        """Return the first `count` of each sentence, [A, count]."""
        return Continuations(*(values[:, :count] for values in self.tensors()))

    def take(self, places: Tensor) -> Continuations:
        """Return those at the places [A, count]."""
        return Continuations(*(values.gather(1, places) for values in self.tensors()))


class Choice:
    """The choice of continuations: the best of all."""

    groups = 1  # number of groups of equal size that the beam is divided into
    needs_prefix = False  # whether the choice depends on the tokens of the hypotheses so far

    def __init__(self, options: SearchOptions) -> None:
        self.beam = options.beam

    def best(
        self, log_probs: Tensor, total: Tensor, prefix: Tensor, active: Tensor
    ) -> Continuations:
        """Return the continuations to consider.

        Args:
            log_probs: log-probabilities of the next token, -inf where excluded, [A, h, V].
            total: summed log-probability of each hypothesis, [A, h].
            prefix: the tokens so far, [A, h, step]; not read unless `needs_prefix`.
            active: the sentences by number, [A].
        """
        return best_continuations(log_probs, total, 2 * self.beam)


def survivors(best: Continuations, groups: int) -> Continuations:
    """Return the first k continuations that do not end, of each group k / groups, [A, k].

    Args:
        best: the best 2k.
        groups: number of groups of the beam.
    """
    return best.take(survivor_places(best, groups))


def survivor_places(best: Continuations, groups: int) -> Tensor:
    """Return the places of the `survivors` among the best 2k, [A, k]."""
    A, k = best.token.shape[0], best.token.shape[1] // 2
    ends = (best.token == EOS).to(torch.uint8)
    if groups == 1:
        return ends.argsort(dim=1, stable=True)[:, :k]
    size = k // groups
    by_group = ends.view(A, 2, groups, size).transpose(1, 2).reshape(A, groups, 2 * size)
    place = by_group.argsort(dim=2, stable=True)[..., :size]  # [A, groups, size]
    first = torch.arange(groups, device=ends.device)[:, None] * size
    return (place // size * k + first + place % size).flatten(1)


def best_continuations(log_probs: Tensor, total: Tensor, count: int) -> Continuations:
    """Return the `count` best continuations of each sentence by summed log-probability.

    Args:
        log_probs: log-probabilities of the next token, [A, h, V].
        total: summed log-probability of each hypothesis, [A, h].
        count: how many; if there are fewer, the rest have total -inf.
    """
    A, h, V = log_probs.shape
    is_wide = V % PARTS == 0 and h * (V // PARTS) >= 4 * count
    find = _best_by_columns if is_wide else _best_of_all
    value, index = find(log_probs, total, min(count, h * V))
    missing = count - value.shape[1]
    log_prob = log_probs.reshape(A, h * V).gather(1, index)
    if missing:
        value = pad(value, (0, missing), value=-math.inf)
        log_prob = pad(log_prob, (0, missing), value=-math.inf)
        index = pad(index, (0, missing), value=PAD)
    return Continuations(value, log_prob, index // V, index % V)


def _best_of_all(log_probs: Tensor, total: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return value and flat index of the best, [A, count] each."""
    best = (log_probs + total[:, :, None]).flatten(1).topk(count)
    return best.values, best.indices


def _best_by_columns(log_probs: Tensor, total: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Compute `_best_of_all` from the best columns, which contain all of the best."""
    A, h, V = log_probs.shape
    width = V // PARTS
    peaks = log_probs.view(A, h, PARTS, width).amax(2).add_(total[:, :, None])  # [A, h, width]
    column = peaks.flatten(1).topk(count, sorted=False).indices  # [A, count]
    parent = column // width
    start = torch.add(column, parent, alpha=V - width)  # the first of the column, [A, count]
    part = torch.arange(0, V, width, device=log_probs.device)
    index = (start[:, :, None] + part).flatten(1)  # [A, count * PARTS]
    value = log_probs.view(A, h * V).gather(1, index).view(A, count, PARTS)
    best = value.add_(total.gather(1, parent)[:, :, None]).flatten(1).topk(count)
    return best.values, index.gather(1, best.indices)
