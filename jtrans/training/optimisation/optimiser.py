"""The optimiser (docs/systems.md 0.7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from jtrans.config import TrainingConfig
from jtrans.training.weights.shards import is_sharded, local

# Adafactor's lower bounds in torch: of the mean of squared gradients, whose square, the paper's
# 1e-30, bounds every estimate of a squared gradient; and of the root mean square of a weight
LEAST_MEAN, LEAST_SCALE = 1e-15, 1e-3


def make_optimiser(model: nn.Module, training: TrainingConfig) -> torch.optim.Optimizer:
    """Build the optimiser: Adam, Adafactor or Nesterov's momentum.

    Adam has decoupled weight decay, p <- p - rate decay p, and so has Adafactor (Shazeer & Stern
    2018) here; its step is min(rate, 1 / sqrt(t)) times the root mean square of a weight. The scale
    of the gradient matters only if its root mean square is below 3e-8. With torch's default bound
    it would matter below 3e-4, as for many matrices, whose steps would then always be the largest.
    """
    settings = training.optimiser
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if settings.momentum is not None:
        return _make_nesterov(parameters, training.learning_rate, settings.momentum)
    if settings.decay_power is not None:
        return torch.optim.Adafactor(
            parameters,
            lr=training.learning_rate,
            beta2_decay=-settings.decay_power,
            eps=(LEAST_MEAN, LEAST_SCALE),
            d=settings.clip_step or 1.0,
            weight_decay=training.weight_decay,
        )
    return torch.optim.AdamW(
        parameters,
        lr=training.learning_rate,
        betas=settings.betas or (0.9, 0.98),
        eps=settings.eps or 1e-8,
        weight_decay=training.weight_decay,
        fused=True,  # 3 to 10 times as fast as the loop over parameters, even on a CPU
    )


def _make_nesterov(
    parameters: Sequence[Parameter], rate: float, momentum: float
) -> torch.optim.Optimizer:
    """Build Nesterov's momentum m <- mu m + g, p <- p - rate (g + mu m)."""
    optimiser = torch.optim.SGD(
        parameters,
        lr=rate,
        momentum=momentum,
        nesterov=True,
        fused=not is_sharded(parameters[0]),  # torch's fused form does not support shards
    )
    for parameter in parameters:  # a first step that is dropped would leave it undefined
        optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def add_l2(parameters: Iterable[Parameter], l2: float, embeddings: Collection[Tensor] = ()) -> None:
    """Add the gradient of the penalty 0.5 l2 sum(p^2) to the gradients of all weight matrices.

    Vectors, that is biases and the scales of normalisations, have no penalty, nor have rows of
    embeddings whose token is not in the update (docs/systems.md 0.7): the penalty would be their
    whole gradient, by which Adam moves them a whole step towards zero.

    Args:
        parameters: of the model.
        l2: weight of the penalty.
        embeddings: those of the parameters that have a row per token.
    """
    rows = set(map(id, embeddings))
    matrices = [p for p in parameters if p.grad is not None and p.dim() > 1]
    others = [p for p in matrices if id(p) not in rows]
    if others:
        gradients = [p.grad for p in others if p.grad is not None]
        torch._foreach_add_(gradients, [p.detach() for p in others], alpha=l2)
    for table in matrices:
        if id(table) in rows and table.grad is not None:
            gradient = local(table.grad)
            is_seen = (gradient != 0).any(-1, keepdim=True)
            gradient.add_(local(table.detach()) * is_seen, alpha=l2)


def step_unless(dropped: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """Do the optimiser's step; if `dropped`, [] bool, nothing changes, its counters included.

    No value is read from a GPU for this if the optimiser is fused, as all are except Adafactor, and
    Nesterov's momentum with sharded weights.
    """
    if dropped.device.type != "cuda" or not optimiser.defaults.get("fused"):
        if not dropped:
            optimiser.step()
        return
    optimiser.found_inf = dropped.float()  # type: ignore[attr-defined]  # as torch's GradScaler does
    optimiser.step()
    optimiser.found_inf = None  # type: ignore[attr-defined]
