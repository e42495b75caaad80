"""A model for searching in bfloat16, whose weights need not be converted again at every step.

`autocast` converts the factors of every product, weights included, which for the few positions of
a step takes longer than the product. Weights that only enter products are therefore stored in
bfloat16. All that `autocast` leaves in float32 stays so: embeddings, also where the output
matrix shares them, layer norms, positions, softmax. Results are the same, bit for bit.
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import nn

from jtrans.models.base import TranslationModel
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.recurrent.lstm import DirectionWeights
from jtrans.nn.reduction import AttentionReduction

# their own parameters
PRODUCTS = (nn.Linear, DirectionWeights, MultiHeadAttention, AttentionReduction)


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
