"""The training objective: label-smoothed cross-entropy, summed over real target tokens.

Logits are computed for real target positions only, and the loss is one formula on them,

    loss = logsumexp(l) - (1 - eps) l_r - (eps / V) sum_v l_v          (form "all")

with its gradient, softmax(l) - (1 - eps) [v = r] - eps / V, written out: log-probabilities are not
stored, and padding costs nothing. Statistics are in at least float32. On a CPU, where the output is
linear, `jtrans.nn.cpu.output_loss` computes both in blocks of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from jtrans.data.batch import Batch
from jtrans.models.base import Memory, TranslationModel
from jtrans.nn.cpu.output_loss import output_loss
from jtrans.nn.device import precise
from jtrans.nn.embedding import PADDING

# Above this many logits (256 MB in float32) the loss is computed in chunks of target tokens whose
# logits are recomputed in the backward pass: 4,096 tokens x 32,000 words would take three
# tensors of 0.5 GB.
LOGITS_AT_ONCE = 2**26


@dataclass(frozen=True)
class Objective:
    """Label-smoothed cross-entropy (docs/systems.md 0.6)."""

    smoothing: float = 0.0  # eps, the probability taken from the reference token
    # "all" spreads it over the whole vocabulary, as fairseq 0.6 does; "others" over all tokens but
    # the reference, as tensor2tensor does
    form: Literal["all", "others"] = "all"

    def __call__(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smoothed and the unsmoothed loss in nats, each summed over N tokens, [].

        Only the smoothed loss has a gradient.

        Args:
            logits: of the target vocabulary, [N, V].
            labels: reference tokens, [N]; those that are padding have no loss.
        """
        loss, nll = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            logits, labels, self.taken(logits.shape[-1])
        )
        return loss, nll

    def taken(self, vocabulary: int) -> float:
        """Return the eps with which the form "all" equals this loss, for V = `vocabulary`."""
        if self.form == "all":
            return self.smoothing
        return self.smoothing * vocabulary / (vocabulary - 1)


def batch_loss(
    model: TranslationModel, batch: Batch, objective: Objective, memory: Memory | None = None
) -> tuple[Tensor, Tensor]:
    """Return smoothed and unsmoothed loss of a batch, summed over its real target tokens, [] each.

    Args:
        model: the system.
        batch: sentence pairs.
        objective: the loss.
        memory: the result of `encode` for the batch; None: it is computed here.
    """
    if memory is None:
        memory = model.encode(batch.source, batch.source_mask)
    hidden = batch.real_targets(model.decode(batch.target_in, memory))  # [N, E]
    labels = batch.real_targets(batch.target_out)  # [N]
    output = model.output_weights()
    if output is not None and hidden.device.type == "cpu" and not torch.compiler.is_compiling():
        return output_loss(hidden, *output, labels, objective.taken(len(output[0])))

    def loss(hidden: Tensor, labels: Tensor) -> Tensor:
        return torch.stack(objective(model.project(hidden), labels))

    return in_chunks(model, loss, hidden, labels)


def in_chunks(
    model: TranslationModel, loss: Callable[..., Tensor], *inputs: Tensor, tensors: int = 1
) -> tuple[Tensor, Tensor]:
    """Return smoothed and unsmoothed loss of target tokens, [] each; many are computed in chunks.

    Args:
        model: the system.
        loss: returns both losses of some tokens, [2].
        inputs: the arguments of `loss`, hidden states first, [N, ...] each.
        tensors: the number of tensors as large as the logits, [N, V], that `loss` holds.
    """
    hidden = inputs[0]
    V = model.project(hidden[:0]).shape[-1]
    rows = max(1, LOGITS_AT_ONCE // (V * tensors))
    if len(hidden) <= rows:
        smoothed, nll = loss(*inputs)
        return smoothed, nll
    chunks = zip(*(torch.split(each, rows) for each in inputs), strict=True)
    losses = [
        checkpoint(loss, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks
    ]
    smoothed, nll = torch.stack(losses).sum(0)
    return smoothed, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        scores = precise(logits)
        normaliser = scores.logsumexp(-1)  # [N]
        reference = scores.gather(-1, labels[:, None]).squeeze(-1)  # [N]
        is_real = (labels != PADDING).to(scores.dtype)  # [N]
        ctx.save_for_backward(logits, labels, normaliser, is_real)
        ctx.eps = eps
        nll = ((normaliser - reference) * is_real).sum()
        if eps == 0.0:
            return nll.clone(), nll
        uniform = ((normaliser - scores.mean(-1)) * is_real).sum()
        return (1.0 - eps) * nll + eps * uniform, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normaliser, is_real = ctx.saved_tensors
        eps = ctx.eps
        gradient = (precise(logits) - normaliser[:, None]).exp_()  # [N, V]
        if eps:
            gradient.sub_(eps / logits.shape[-1])
        taken = gradient.new_full((1, 1), eps - 1.0).expand(len(labels), 1)
        gradient.scatter_add_(-1, labels[:, None], taken)
        return gradient.mul_(gradients[0] * is_real[:, None]).to(logits.dtype), None, None
