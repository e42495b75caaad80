"""Models without a prepared form whose plain linear maps have int8 weights, on a CPU."""

from __future__ import annotations

import copy
import itertools

import torch
from torch import Tensor, nn

from jtrans.errors import ConfigError
from jtrans.models.base import TranslationModel
from jtrans.nn.cpu.fixed_linear import FixedLinear
from jtrans.nn.cpu.trained_linear import Linear


class Int8Linear(nn.Linear):
    """A linear map with int8 weights; those in float32 stay for code that reads them."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._fixed = FixedLinear(linear.weight, linear.bias, torch.qint8)

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        rows = self._fixed(x.reshape(-1, self.in_features))
        return rows.to(x.dtype).view(*x.shape[:-1], self.out_features)


def with_int8_weights(model: TranslationModel) -> TranslationModel:
    """Return a model with int8 weights in its plain linear maps; the given one stays as it is.

    Both share every other tensor.

    Raises:
        ConfigError: it has no plain linear maps.
    """
    tensors = itertools.chain(model.parameters(), model.buffers())
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    plain = [
        (module, name, child)
        for module in twin.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.Linear)
        and type(child) in (nn.Linear, Linear)  # a subclass may do more
    ]
    if not plain:
        raise ConfigError(
            f"this {model.config.system} has no linear maps whose weights could be int8",
            where="--precision",
            hint="--precision fp32, or bf16",
            kind="config.value",
        )
    for module, name, child in plain:
        setattr(module, name, Int8Linear(child))
    return twin
