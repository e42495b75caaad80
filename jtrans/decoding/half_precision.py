"""A model for searching in bfloat16, whose weights need not be converted again at every step.

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

from jtrans.models.base import Memory, State, TranslationModel
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu.trained_linear import Linear
from jtrans.nn.device import autocast
from jtrans.nn.recurrent.lstm import DirectionWeights
from jtrans.nn.reduction import AttentionReduction

# their own parameters
PRODUCTS = (nn.Linear, Linear, DirectionWeights, MultiHeadAttention, AttentionReduction)


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


def with_bf16_products(model: TranslationModel) -> TranslationModel:
    """Return a model to be used within `autocast`; the given one, in float32, stays as it is.

    Both share every tensor that is not converted.
    """
    tensors = itertools.chain(model.parameters(), model.buffers())
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    for module in twin.modules():
        if type(module) in PRODUCTS:  # a subclass of another package may do more with them
            for name, weight in module.named_parameters(recurse=False):
                half = nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
                setattr(module, name, half)
    return twin
