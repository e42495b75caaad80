"""A moving average of the weights, which takes their place in validation and translation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from jtrans.training.weights.shards import assign, local


class MovingAverage:
    """The exponential moving average a <- d a + (1 - d) p of the weights p of a model.

    At update t, d is at most (1 + t) / (10 + t), as in OpenNMT-py's and TensorFlow's code, so
    that the first weights are soon forgotten.

    Args:
        model: its trained weights are averaged.
        decay: the highest d.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        self._averages = [weight.detach().clone() for weight in self._weights.values()]

    def update(self, update: int, dropped: Tensor) -> None:
        """Move the averages towards the weights, after update number `update`.

        If it was `dropped`, [] bool, they stay. No value is read from a GPU.
        """
        decay = min(self.decay, (1 + update) / (10 + update))
        weights = [weight.detach() for weight in self._weights.values()]
        if dropped.device.type != "cpu":
            both = zip(self._averages, weights, strict=True)
            weights = [torch.where(dropped, average, weight) for average, weight in both]
        elif dropped:
            return
        torch._foreach_lerp_(self._averages, weights, 1.0 - decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[dict[str, Tensor]]:
        """Put the averages into the model within the block; yield the trained weights by name."""
        self._exchange()
        try:
            yield dict(zip(self._weights, self._averages, strict=True))
        finally:
            self._exchange()

    def restore(self, trained: dict[str, Tensor]) -> None:
        """Set the averages to the model's weights, and then its weights to the `trained` ones.

        Args:
            trained: as yielded by `in_place`; empty to keep the model's weights.

        Raises:
            KeyError, RuntimeError: they are those of another model.
        """
        for average, weight in zip(self._averages, self._weights.values(), strict=True):
            average.copy_(weight.detach())
        if trained:
            with torch.no_grad():
                for name, weight in self._weights.items():
                    assign(weight, trained[name])

    def _exchange(self) -> None:
        for average, weight in zip(self._averages, self._weights.values(), strict=True):
            trained, averaged = local(weight.detach()), local(average)
            copy = trained.clone()
            trained.copy_(averaged)
            averaged.copy_(copy)
