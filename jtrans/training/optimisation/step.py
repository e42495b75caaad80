"""One step of the optimiser: the gradient is clipped, and skipped or dropped if it is bad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from jtrans.config import TrainingConfig
from jtrans.training.optimisation.guard import GradientGuard
from jtrans.training.optimisation.optimiser import add_l2, step_unless
from jtrans.training.weights.shards import whole


@dataclass(eq=False)
class Step:
    """Updates parameters from their gradients, and clears these."""

    parameters: list[Parameter]  # of the model
    optimiser: torch.optim.Optimizer  # of the parameters
    training: TrainingConfig  # the settings
    guard: GradientGuard | None  # judges finite gradients, if there is one
    embeddings: Sequence[Tensor] = ()  # the parameters with a row per token

    def __call__(self, rate: float, losses: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Do a step, without reading any value from a GPU, except as in `step_unless`.

        Args:
            rate: the learning rate.
            losses: the summed losses, [n], which must be finite, too.

        Returns:
            The gradient's norm before clipping, [], and whether nothing was updated, [] bool,
            because a number is not finite or the guard dropped the update.
        """
        if self.training.l2:
            add_l2(self.parameters, self.training.l2, self.embeddings)
        norm = whole(get_total_norm([p.grad for p in self.parameters if p.grad is not None]))
        # reading the norm makes a GPU wait; scaling costs a CPU a pass over the gradient
        clip_norm = self.training.clip_norm
        if clip_norm and (norm.is_cuda or float(norm) > clip_norm):
            clip_grads_with_norm_(self.parameters, clip_norm, norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        dropped = ~norm.isfinite() if losses is None else ~(norm + losses.sum()).isfinite()
        if self.guard is not None:
            dropped = dropped | self.guard.judge(norm)
        step_unless(dropped, self.optimiser)
        self.optimiser.zero_grad(set_to_none=True)
        return norm, dropped
