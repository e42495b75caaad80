"""R-Drop, and cutoff in its second pass (docs/systems.md 0.6)."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.models.base import Memory, TranslationModel
from jtrans.nn.device import precise
from jtrans.nn.embedding import PADDING
from jtrans.training.objective import Objective, in_chunks


def repeated(batch: Batch) -> Batch:
    """Return the batch with all its pairs twice, [2B, ...], so that each gets two dropout masks."""

    def twice(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor])

    rows = batch.target_rows
    return Batch(
        twice(batch.source),
        twice(batch.source_mask),
        twice(batch.target_in),
        twice(batch.target_out),
        twice(batch.target_mask),
        twice(batch.indices),
        None if rows is None else torch.cat([rows, rows + batch.target_out.numel()]),
        {kind: twice(labels) for kind, labels in batch.labels.items()},
    )


def cut_second(batch: Batch, rate: float) -> Batch:
    """Cut each token in the second half of a batch from `repeated` with probability `rate`.

    Token cutoff (Shen et al. 2020): the vector of a cut token is zero, including its position where
    positions are added to tokens, but attention does not mask it. docs/systems.md 0.6 names the
    variants in published code.
    """
    if rate == 0.0:
        return batch

    def cut(ids: Tensor) -> Tensor:
        first, second = ids.chunk(2)
        is_cut = torch.rand(second.shape, device=ids.device) < rate
        return torch.cat([first, second.masked_fill(is_cut, PADDING)])

    return dataclasses.replace(batch, source=cut(batch.source), target_in=cut(batch.target_in))


def r_drop_loss(
    model: TranslationModel, batch: Batch, objective: Objective, memory: Memory, weight: float
) -> tuple[Tensor, Tensor]:
    """Return the loss of R-Drop and the unsmoothed loss, [] each, summed over real target tokens.

    Half of equation 4 of Liang et al. 2021, so that the loss of a token does not double: with the
    distributions P and Q of two passes with different dropout,

        (CE(P) + CE(Q)) / 2 + weight (KL(P || Q) + KL(Q || P)) / 4

    Args:
        model: the system, in training mode.
        batch: sentence pairs twice, from `repeated`.
        objective: the cross-entropy.
        memory: the result of `encode` for the batch.
        weight: of the divergence; 5 in the paper's translation experiments.
    """
    hidden = batch.real_targets(model.decode(batch.target_in, memory))  # [2N, E]
    labels = batch.real_targets(batch.target_out)  # [2N]
    first, second = hidden.chunk(2)

    def loss(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        both = [model.project(first), model.project(second)]  # [N, V]
        smoothed, nll = torch.stack(
            [torch.stack(objective(logits, labels)) for logits in both]
        ).mean(0)
        p, q = (torch.log_softmax(precise(logits), dim=-1) for logits in both)
        both_ways = ((p.exp() - q.exp()) * (p - q)).sum(-1)  # KL(P || Q) + KL(Q || P), [N]
        divergence = (both_ways * (labels != PADDING)).sum()
        return torch.stack([smoothed + 0.25 * weight * divergence, nll])

    # two tensors of log-probabilities beside the two of logits
    return in_chunks(model, loss, first, second, labels.chunk(2)[0], tensors=4)
