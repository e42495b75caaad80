"""A linear map of a few rows as a torch operator, with the layer norm before it and what follows.

A step of the search multiplies few rows, so that launching an operation on a GPU takes longer than
computing it. Norm, conversion, product, bias, ReLU and residual are one launch instead of two to
four.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.nn.gpu.operator import is_supported

# The most rows for which the kernel is used. Calculated, not measured: with more, the product takes
# most of the time, and cuBLAS computes it faster.
MOST_ROWS = 4_096

_FUSING: ContextVar[bool] = ContextVar("fused_rows", default=False)


@contextlib.contextmanager
def fused_rows() -> Iterator[None]:
    """Let linear maps of few rows be one launch each within the context.

    For captured steps: launched from Python, the operator takes longer than the launches that it
    saves.
    """
    token = _FUSING.set(True)
    try:
        yield
    finally:
        _FUSING.reset(token)


def fuses_rows(x: Tensor, weight: Tensor) -> bool:
    """Return whether `row_linear` is to be used for x, [..., in], with a weight, [out, in]."""
    if not _FUSING.get():
        return False
    rows = x.shape[:-1].numel()
    return rows <= MOST_ROWS and is_supported(weight, length=1, head_width=1)


def _compute(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    eps: float | None,
    has_relu: bool,
) -> Tensor:
    """Compute the operator with a matrix product."""
    if eps is not None:
        x = F.layer_norm(x, x.shape[-1:], eps=eps)
    y = F.linear(x.to(weight.dtype), weight, bias)
    y = y.relu_() if has_relu else y
    return y if residual is None else residual + y


row_linear = torch.library.custom_op(
    "jtrans::row_linear",
    _compute,
    mutates_args=(),
    schema="(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, float? eps, bool has_relu)"
    " -> Tensor",
)
row_linear.__doc__ = """Return residual + ReLU(W y + b), where y is x or ``(x - mean) / std``.

Args:
    x: [..., in].
    weight: W, [out, in], contiguous, in the type of the product; x is converted to it.
    bias: b, [out], in the same type.
    residual: [..., out], of any type; None adds nothing.
    eps: epsilon of the layer norm, which has no scale and shift; None leaves it out.
    has_relu: whether there is a ReLU.

Returns:
    [..., out], in the type of the residual, or of the weight without one.
"""


@row_linear.register_kernel("cuda")
def _(x: Tensor, *others: Any) -> Tensor:
    from jtrans.nn.gpu import row_kernel

    return row_kernel.linear(x, *others)


@row_linear.register_fake
def _(x: Tensor, weight: Tensor, bias: object, residual: Tensor | None, *_: object) -> Tensor:
    dtype = weight.dtype if residual is None else residual.dtype
    return x.new_empty(*x.shape[:-1], len(weight), dtype=dtype)
