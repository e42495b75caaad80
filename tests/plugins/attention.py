"""Attention by matrix products, which faster ways must equal."""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.attention import attention_weights, mix
from jtrans.nn.softmax import padding_bias


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Attend by matrix products."""
    return mix(attention_weights(q, k, bias=bias, causal=causal), v)


def source_bias(length: int) -> Tensor:
    """Return the bias of sentences with 5, 3 and 1 real positions, [3, L]."""
    bias = padding_bias(torch.arange(length) < torch.tensor([[5], [3], [1]]))
    assert bias is not None
    return bias
