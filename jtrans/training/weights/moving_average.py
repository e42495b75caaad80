"""A moving average of the weights, which is validated and translated with in their place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from jtrans.training.weights.shards import assign, local


class MovingAverage:
    """The exponential moving average a <- d a + (1 - d) p of the weights p of a model.

    At first d is (1 + t) / (10 + t) at update t, as in tensor2tensor's and TensorFlow's code, so
    that the weights of the beginning are soon forgotten.

    Args:
        model: its weights, those that are trained.
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
        """Give the model the averages for a while; yield the weights that it is trained with."""
        self._exchange()
        try:
            yield dict(zip(self._weights, self._averages, strict=True))
        finally:
            self._exchange()

    def restore(self, trained: dict[str, Tensor]) -> None:
        """Take the model's weights as the averages, and give it the `trained` ones.

        Args:
            trained: as yielded by `in_place`; empty if there were no averages.

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
