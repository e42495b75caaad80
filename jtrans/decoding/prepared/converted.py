"""Models without a prepared form, with their weights converted once: to bfloat16, or to int8.

`autocast` converts the factors of every product, weights included, which for the few positions of
a step takes longer than the product. Weights that only enter products are therefore stored in
bfloat16. All that `autocast` leaves in float32 stays so: embeddings, also where the output
matrix shares them, layer norms, positions, softmax. Results are the same, bit for bit.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import Tensor, nn

from jtrans.decoding.prepared.fixed_linear import fixed_linear
from jtrans.errors import ConfigError
from jtrans.models.base import Memory, State, TranslationModel
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu.linear import Linear
from jtrans.nn.device import autocast
from jtrans.nn.recurrent.lstm import DirectionWeights
from jtrans.nn.reduction import AttentionReduction

# By exact class, as a subclass of another package may do more with its weights.
LINEAR_MAPS = (nn.Linear, Linear)
PRODUCTS = (*LINEAR_MAPS, DirectionWeights, MultiHeadAttention, AttentionReduction)


class HalfPrecision:
    """A model as the search uses it in bfloat16, without a context of autocast around it.

    Args:
        model: in float32; it stays as it is.
    """

    def __init__(self, model: TranslationModel) -> None:
        self.model = with_bf16_products(model)
        self.is_joint = model.is_joint
        self.longest = model.longest
        self.device = model.device

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        with autocast(self.device, "bf16"):
            return self.model.encode(source, source_mask)

    def begin(self, memory: Memory, beam: int) -> State:
        """Return the state of B x beam empty prefixes."""
        with autocast(self.device, "bf16"):
            return self.model.begin(memory, beam)

    def step(self, token: Tensor, state: Any) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]."""
        with autocast(self.device, "bf16"):
            return self.model.step(token, state)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        with autocast(self.device, "bf16"):
            return self.model.project(hidden)


class Int8Linear(nn.Linear):
    """A linear map with int8 weights; those in float32 are kept for code that reads them."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._fixed = fixed_linear(linear.weight, linear.bias, torch.qint8)

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        rows = self._fixed(x.reshape(-1, self.in_features))
        return rows.to(x.dtype).view(*x.shape[:-1], self.out_features)


def with_bf16_products(model: TranslationModel) -> TranslationModel:
    """Return a model to be used within `autocast`; the given one, in float32, stays as it is."""
    twin = _twin(model)
    for module in twin.modules():
        if type(module) in PRODUCTS:
            for name, weight in module.named_parameters(recurse=False):
                half = nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
                setattr(module, name, half)
    return twin


def with_int8_weights(model: TranslationModel) -> TranslationModel:
    """Return a model with int8 weights in its plain linear maps; the given one stays as it is.

    Raises:
        ConfigError: it has no plain linear maps.
    """
    twin = _twin(model)
    linear_maps = [
        (module, name, child)
        for module in twin.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.Linear) and type(child) in LINEAR_MAPS
    ]
    if not linear_maps:
        raise ConfigError(
            f"this {model.config.system} has no linear maps whose weights could be int8",
            where="--precision",
            hint="--precision fp32, or bf16",
            kind="config.value",
        )
    for module, name, child in linear_maps:
        setattr(module, name, Int8Linear(child))
    return twin


def _twin(model: TranslationModel) -> TranslationModel:
    """Return a copy that shares every tensor with the model, until the copy replaces it."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
