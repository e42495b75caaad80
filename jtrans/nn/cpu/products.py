"""Products of rows and weights in training, by oneDNN where it is in use.

Its products have round numbers of rows (`jtrans.nn.cpu.round_rows`) and include a ReLU after them.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from jtrans.nn.cpu import round_rows
from jtrans.nn.cpu.matmul_backend import is_onednn_used


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b, [n, in] -> [n, out]."""
    if takes(x.dtype):
        return round_rows.product(x, weight.t(), bias)
    return x.mm(weight.t()) if bias is None else torch.addmm(bias, x, weight.t())


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return relu(x W^T + b), [n, in] -> [n, out].

    In bf16 a separate ReLU takes as long as the product: torch computes it in float32.
    """
    if not takes(x.dtype):
        return torch.addmm(bias, x, weight.t()).relu_()
    parts, done = [], 0
    for first, end in round_rows.parts(len(x)):
        part = torch.ops.mkldnn._linear_pointwise.default(
            x[first:end], weight, bias, "relu", [], ""
        )
        parts.append(part[done - first :])
        done = end
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a b, [n, k] and [k, m] -> [n, m]."""
    return round_rows.product(a, b) if takes(a.dtype) else a.mm(b)


def sum_of_products(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a^T b, [n, k] and [n, m] -> [k, m], the gradient of a weight of type `dtype`."""
    return round_rows.sum_of_products(a, b, dtype) if takes(a.dtype) else a.t().mm(b).to(dtype)


def takes(dtype: torch.dtype) -> bool:
    """Return whether oneDNN computes products of this type."""
    if dtype == torch.bfloat16:
        return has_onednn_bf16()
    return dtype == torch.float32 and is_onednn_used()


@functools.cache
def has_onednn_bf16() -> bool:
    """Return whether oneDNN has products of bf16 on this processor."""
    if not torch.backends.mkldnn.is_available():
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def relu_gradient_(gradient: Tensor, hidden: Tensor) -> Tensor:
    """Set the gradient to 0 where the hidden layer is 0, and return it.

    Args:
        gradient: gradient of the hidden layer, [n, F]; overwritten.
        hidden: the hidden layer after the ReLU, so nowhere negative, [n, F].
    """
    if gradient.dtype != torch.bfloat16:
        threshold = torch.ops.aten.threshold_backward
        threshold.grad_input(gradient, hidden, 0, grad_input=gradient)
        return gradient
    # a bf16 number is positive if and only if its bits are, read as int16: a product with these,
    # clamped to 0 or 1, takes 45 us where threshold_backward takes 168; in float32 it would take
    # twice as long
    gradient.view(torch.int16).mul_(hidden.view(torch.int16).clamp(0, 1))
    return gradient
