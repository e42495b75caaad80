"""The gradient of an update, of which each rank computes its share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from jtrans.config import TrainingConfig
from jtrans.models.base import TranslationModel
from jtrans.nn.cpu.malloc import FreedMemory
from jtrans.training.captured.gradients import can_capture
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.batch_statistics import BatchStatistics
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.divergence.skips import Skips
from jtrans.training.divergence.trace import Attempt
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective
from jtrans.training.optimisation.noise_scale import NoiseScale
from jtrans.training.updates import MicroBatch, UpdatePlan

if TYPE_CHECKING:  # importing torch's FSDP takes seconds
    from jtrans.training.distributed.sharding import Sharding


class UpdateGradient:
    """Computes the gradients of updates, measures their noise, and keeps the last to explain skips.

    Args:
        model: in training mode, on its device.
        plan: groups micro-batches into updates; with BPE-dropout the trainer replaces it in every
            epoch.
        training: the settings.
        precision: "fp32" or "bf16".
        on_split: see `GradientAccumulator`.
        ranks: the processes that train together.
        sharding: how the model's weights are sharded over the ranks; None if they are not.
    """

    def __init__(
        self,
        model: TranslationModel,
        plan: UpdatePlan,
        training: TrainingConfig,
        *,
        precision: str,
        on_split: Callable[[int, int], None],
        ranks: Ranks,
        sharding: Sharding | None,
    ) -> None:
        self.model = model
        self.plan = plan
        self.training = training
        self.ranks = ranks
        self.parameters = list(model.parameters())
        self.noise = NoiseScale()
        self.accumulator = GradientAccumulator(
            model,
            Objective(training.label_smoothing, training.smoothing_form),
            precision=precision,
            word_dropout=training.word_dropout,
            r_drop=training.r_drop,
            cutoff=training.cutoff,
            on_split=on_split,
            before=lambda indices: ranks.begin_micro_batch(training.seed, self._done, indices),
            after=lambda part: self.noise.add(self.parameters, self.plan.divisor([part])),
            sharding=sharding,
            has_graphs=sharding is None and can_capture(model, training),
        )
        self.skips = Skips(self.accumulator, ranks, training.seed)
        self._statistics = BatchStatistics(model)
        self._freed = FreedMemory()
        self._done = 0

    def accumulate(
        self, done: int, micro_batches: Sequence[MicroBatch], following: Sequence[MicroBatch] = ()
    ) -> Tensor:
        """Accumulate the gradient of an update's loss over all ranks.

        Args:
            done: the number of updates before this one.
            micro_batches: of the update, for all ranks.
            following: micro-batches of the next update, which may be padded meanwhile.

        Returns:
            The losses of `GradientAccumulator.accumulate`, summed over all ranks, [2 + kinds].
        """
        self._done, pairs = done, self.plan.pairs
        dealt, idle = self._own(micro_batches)
        next_own = self._own(following)[0] if following else []
        self.accumulator.batches.expect(pairs, [*dealt, *next_own])
        loss = UpdateLoss(pairs, self.plan.divisor(micro_batches), self.labelled(micro_batches))
        counted, random = dealt[: len(dealt) - idle], RandomState.of(self.model.device)
        self.skips.remember(Attempt(done + 1, loss, counted, random))
        self._statistics.keep()
        # with l2, the norm of the whole gradient includes the penalty, those of its parts do not
        is_measurable = (
            not (self.training.l2 or self.ranks.is_sharding)
            and self.ranks.count * len(micro_batches) > 1
        )
        self.noise.begin(done, loss.divisor if is_measurable else 0)
        losses = self.accumulator.accumulate(loss, dealt, idle=idle)
        sums = self.ranks.add_up(self.parameters, self.noise.joined(losses))
        return self.noise.parted(sums)

    def end(self, norm: Tensor, dropped: Tensor) -> None:
        """End an update, given its gradient's norm, [], and whether it was `dropped`, [] bool."""
        self.noise.end(norm)
        self._statistics.restore(dropped)
        self._freed.release()

    def labelled(self, micro_batches: Sequence[MicroBatch]) -> dict[str, int]:
        """Count the labelled source tokens of an update by kind of label."""
        return self.accumulator.labelled(self.plan.pairs, micro_batches)

    def _own(self, micro_batches: Sequence[MicroBatch]) -> tuple[Sequence[MicroBatch], int]:
        return self.ranks.deal(micro_batches, self.plan.size)
