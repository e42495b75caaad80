"""A linear map and the ReLU after it in one pass, where oneDNN computes the product."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from jtrans.nn.cpu.matmul_backend import is_onednn_used


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W^T + b, [n, in] -> [n, out]."""
    if takes(x.dtype):
        return _by_onednn(x, weight, bias, "none")
    return torch.addmm(bias, x, weight.t())


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return relu(x W^T + b), [n, in] -> [n, out].

    In bf16 a ReLU of its own takes as long as the product: torch computes it in float32.
    """
    if takes(x.dtype):
        return _by_onednn(x, weight, bias, "relu")
    return torch.addmm(bias, x, weight.t()).relu_()


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


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor, function: str) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise.default(  # type: ignore[no-any-return]
        x, weight, bias, function, [], ""
    )
