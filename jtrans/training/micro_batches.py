"""Gradient accumulation over the micro-batches of an update, halving those that do not fit.

The loss is summed and divided once by the target tokens, or by the sentences, of the whole update,
so the gradient does not depend on how the update is split into micro-batches. Losses of labels
(docs/systems.md 6.4) are divided by the labelled tokens of the whole update. Nothing is skipped
when memory runs out: the partial gradient of the failed micro-batch is discarded, its two halves
are processed instead, and for a while micro-batches of that size are split beforehand
(`MemoryLimits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.data.ids import ParallelIds
from jtrans.data.word_dropout import drop_words
from jtrans.models.base import TranslationModel
from jtrans.nn.device import autocast
from jtrans.nn.memory import is_out_of_memory
from jtrans.training.captured.gradients import CapturedGradients
from jtrans.training.divergence.batch_statistics import BatchStatistics
from jtrans.training.feeding.ahead import BatchesAhead
from jtrans.training.memory import MemoryLimits
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.r_drop import cut_second, r_drop_loss, repeated
from jtrans.training.updates import MicroBatch, padded_size

if TYPE_CHECKING:  # importing torch's FSDP takes seconds
    from jtrans.training.distributed.sharding import Sharding


NO_LABELS: Mapping[str, int] = {}


@dataclass(frozen=True)
class UpdateLoss:
    """The loss of an update, of which every micro-batch computes its part."""

    pairs: ParallelIds  # the split
    divisor: int  # of the summed loss: the target tokens or the sentences of the update
    # the labelled source tokens of the update, by each kind of label that is learned
    labelled: Mapping[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class GradientAccumulator:
    """Accumulates the gradient of updates in the parameters of a model."""

    model: TranslationModel  # in training mode, on its device
    objective: Objective  # the loss
    _: KW_ONLY
    precision: str  # "fp32" or "bf16"
    word_dropout: float = 0.0  # probability that ``<unk>`` is read instead of a token
    r_drop: float = 0.0  # the weight of R-Drop; 0 for a single pass
    cutoff: float = 0.0  # probability that R-Drop's second pass does not read a token
    # called with the number of sentences and the padded size (joint positions, or source and target
    # tokens) of each micro-batch that did not fit into memory
    on_split: Callable[[int, int], None] = lambda sentences, size: None
    # called with each micro-batch before it runs
    before: Callable[[MicroBatch], None] = lambda indices: None
    # called with each micro-batch after it ran, while the parameters hold its gradient alone
    after: Callable[[MicroBatch], None] = lambda indices: None
    # how the model's weights are sharded over ranks; if they are, no micro-batch is halved, as all
    # ranks exchange weights in each
    sharding: Sharding | None = None
    has_graphs: bool = False  # whether gradients are captured as CUDA graphs

    def __post_init__(self) -> None:
        self.limits = MemoryLimits()
        self.batches = BatchesAhead(self.model.device)
        # collected once: walking over the modules of a small model slows its updates down
        self._parameters = list(self.model.parameters())
        self._statistics = BatchStatistics(self.model)
        self.captured = CapturedGradients(self.model, self._losses_of) if self.has_graphs else None

    def accumulate(
        self, loss: UpdateLoss, micro_batches: Sequence[MicroBatch], *, idle: int = 0
    ) -> Tensor:
        """Add the gradient of an update's loss to the parameters.

        Args:
            loss: of the update.
            micro_batches: those of this process, as indices into the split.
            idle: how many of the last micro-batches are computed without being counted.

        Returns:
            The summed loss with and without smoothing, and the summed losses of the labels,
            [2 + kinds].

        Raises:
            RuntimeError, MemoryError: a single pair does not fit into memory.
        """
        self.limits.count_update()
        losses = torch.zeros(2 + len(loss.labelled), device=self.model.device)
        if self.sharding is not None:
            counted = len(micro_batches) - idle
            for number, indices in enumerate(micro_batches):
                self.before(indices)
                losses += self._forward_backward(loss, indices, float(number < counted))
            return losses
        sides = loss.pairs.source, loss.pairs.target
        waiting = list(reversed(micro_batches))
        while waiting:
            indices = waiting.pop()
            size = padded_size(loss.pairs, indices, is_joint=self.model.is_joint)
            longest = max(int(side.lengths[indices].max()) for side in sides)
            fits = self.limits.fits(size, longest) or indices.size == 1
            own_losses = self.run(loss, indices) if fits else None
            if own_losses is not None:
                losses += own_losses
                continue
            if fits:
                self.limits.fail(size, longest)
                self.on_split(indices.size, size)
            middle = indices.size // 2
            waiting += [indices[middle:], indices[:middle]]
        return losses

    def make_room(self) -> bool:
        """Drop the captured graphs; return whether there were any."""
        return self.captured is not None and self.captured.make_room()

    @property
    def warm_ups(self) -> int:
        """How often a micro-batch must be computed before it reaches its full speed."""
        return 0 if self.captured is None else 2  # it is captured the second time

    def labelled(self, pairs: ParallelIds, micro_batches: Sequence[MicroBatch]) -> dict[str, int]:
        """Count the labelled source tokens of an update, for each kind of label that is learned."""
        return {
            kind: sum(int(pairs.labels[kind].labelled[indices].sum()) for indices in micro_batches)
            for kind in self.model.auxiliary_weights
            if kind in pairs.labels
        }

    def run(
        self, loss: UpdateLoss, indices: MicroBatch, *, may_drop_graphs: bool = True
    ) -> Tensor | None:
        """Add the gradient of a micro-batch to the parameters, and return its losses, [2 + kinds].

        If it does not fit into memory, captured graphs are dropped and it is tried again. If it
        still does not fit, None is returned and nothing has changed.

        Raises:
            RuntimeError, MemoryError: a single pair does not fit into memory.
        """
        parameters = self._parameters
        before = [parameter.grad for parameter in parameters]
        self._statistics.keep()
        self.before(indices)
        try:
            if self.captured is not None:
                before = self.captured.keep(before)
            for parameter in parameters:
                parameter.grad = None  # a failed micro-batch leaves a partial gradient
            losses = self._forward_backward(loss, indices)
        except (RuntimeError, MemoryError) as error:
            may_drop_graphs &= self.captured is not None and bool(self.captured.kept)
            if not is_out_of_memory(error) or (indices.size == 1 and not may_drop_graphs):
                raise
            losses = None
        if losses is None:  # outside the handler, whose traceback keeps tensors alive
            for parameter, gradient in zip(parameters, before, strict=True):
                parameter.grad = gradient
            self._statistics.restore(torch.tensor(True, device=self.model.device))
            self.make_room()
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            return self.run(loss, indices, may_drop_graphs=False) if may_drop_graphs else None
        self.after(indices)
        to_add = [
            (parameter.grad, gradient)
            for parameter, gradient in zip(parameters, before, strict=True)
            if parameter.grad is not None and gradient is not None
        ]
        if to_add:
            torch._foreach_add_([new for new, _ in to_add], [old for _, old in to_add])
        for parameter, gradient in zip(parameters, before, strict=True):
            if parameter.grad is None:
                parameter.grad = gradient
        return losses

    def forward(self, loss: UpdateLoss, indices: MicroBatch) -> Tensor:
        """Return a micro-batch's losses, [2 + kinds], without a gradient; weights must be whole."""
        self.before(indices)
        with torch.no_grad():
            return self._losses(loss, indices)[1]

    def _forward_backward(
        self, loss: UpdateLoss, indices: MicroBatch, weight: float = 1.0
    ) -> Tensor:
        if self.captured is not None:
            return self.captured(self.batches.take_on_cpu(loss.pairs, indices), loss.divisor)
        if self.sharding is None:
            total, losses = self._losses(loss, indices)
        else:
            total, losses = self.sharding.run(lambda: self._losses(loss, indices))
            total, losses = weight * total, weight * losses
        total.backward()
        return losses

    def _losses(self, update: UpdateLoss, indices: MicroBatch) -> tuple[Tensor, Tensor]:
        batch = self.batches.take(update.pairs, indices)
        return self._losses_of(batch, update.divisor, update.labelled)

    def _losses_of(
        self, batch: Batch, divisor: int | Tensor, labelled: Mapping[str, int] = NO_LABELS
    ) -> tuple[Tensor, Tensor]:
        """Return what to differentiate, [], and the summed losses, [2 + kinds]."""
        is_training = self.model.training  # not while the cause of a bad validation is traced
        if self.word_dropout and is_training:
            batch = drop_words(batch, self.word_dropout)
        passes = 1
        has_second = bool(self.r_drop) and is_training
        if has_second:
            batch, passes = cut_second(repeated(batch), self.cutoff), 2
        learned = {kind: batch.labels[kind] for kind in labelled}
        with autocast(self.model.device, self.precision):
            memory = self.model.encode(batch.source, batch.source_mask)
            if has_second:
                loss, nll = r_drop_loss(self.model, batch, self.objective, memory, self.r_drop)
            else:
                loss, nll = batch_loss(self.model, batch, self.objective, memory)
            auxiliary = self.model.auxiliary(memory, learned) if learned else {}
        auxiliary = {kind: value / passes for kind, value in auxiliary.items()}
        total = loss / divisor
        for kind, count in labelled.items():
            total = total + self.model.auxiliary_weights[kind] * auxiliary[kind] / max(1, count)
        losses = torch.stack([loss, nll, *(auxiliary[kind] for kind in labelled)])
        return total, losses.detach()
