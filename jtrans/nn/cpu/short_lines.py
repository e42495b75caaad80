"""Attention over many short lines, without torch's softmax.

Torch computes a softmax along an axis of 15 numbers line by line, at 1 us for every 60 numbers, as
long as a product of 256 by 256 takes. Exponentials of all scores at once, and sums as a product
with ones, take a twentieth. The maximum of each line is not needed while no score is large, for
which one check of all scores is enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.cpu.softmax import SAFE


def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the weighted sums of values before normalisation, and the sums of the weights.

    The caller divides the first by the second, for example as part of a copy.

    Args:
        q: queries, scaled, [n, Lq, D].
        k: keys, [n, Lk, D].
        v: values, [n, Lk, D].
        allowed: 1 where a query attends to a key, otherwise 0; at least one 1 for each query,
            [m, Lq, Lk], one table for every n / m consecutive lines.

    Returns:
        [n, Lq, D] and [n, Lq, 1].
    """
    scores = torch.bmm(q, k.mT)
    n, Lq, Lk = scores.shape
    low, high = torch.aminmax(scores)
    if float(low) > -SAFE and float(high) < SAFE:
        weights = scores.exp_()
        if allowed is not None:
            weights.view(len(allowed), -1, Lq, Lk).mul_(allowed[:, None])
    else:
        if allowed is not None:
            by_mask = scores.view(len(allowed), -1, Lq, Lk)
            by_mask.masked_fill_(allowed[:, None] == 0, float("-inf"))
        weights = torch.softmax(scores, -1)
    sums = torch.mv(weights.view(-1, Lk), weights.new_ones(Lk))
    return torch.bmm(weights, v), sums.view(n, Lq, 1)
