"""Linear maps whose weights no longer change, in the form that multiplies fastest.

On a CPU oneDNN lays the weights out once for its kernels and adds bias, ReLU and residual while
it writes the product: for 80 to 5,000 rows of 256 to 1,024 features that is 10 to 20 % faster than
MKL, and in bfloat16 as much faster than laying them out at every call. With 5 rows, where reading
the weights takes the time, MKL took 3.96 ms for those of 6 Transformer decoder layers, and packed
weights 2.12.

Where oneDNN is not exact in float32 (with AMX), MKL reads W^T laid out by rows: that takes 20 to
40 % less time than W with 5 or 20 rows, 13 to 22 % less with 80, and 4 to 7 % less with 320.

In int8 a weight is a whole number of -127 to 127 times a scale for each output feature, and the
input is rounded to 256 levels at every call, between the least and the greatest of all its rows.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.nn.cpu.matmul_backend import is_onednn_real_float32


class FixedLinear:
    """x W^T + b.

    Args:
        weight: W, [out, in].
        bias: b, [out].
        dtype: of the product; ``torch.qint8``: of the weights, all else is float32.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.dtype = input_type(dtype)  # of input and output
        self.weight = weight.detach().to(self.dtype).contiguous()
        self.bias = None if bias is None else bias.detach().to(self.dtype)
        self.is_int8 = dtype == torch.qint8
        if self.is_int8:
            self.weight = packed_int8(self.weight, self.bias)
            self.is_packed = False
            return
        self.is_packed = is_packable(self.weight)
        if self.is_packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)
        elif self.weight.device.type == "cpu":
            self.weight = self.weight.t().contiguous().t()

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [n, in] -> [n, out]."""
        if self.is_int8:
            return self._int8(torch.ops.quantized.linear_dynamic, x)
        if self.is_packed:
            return self._packed(x, "none")
        return F.linear(self._input(x), self.weight, self.bias)

    def relu(self, x: Tensor) -> Tensor:
        """Return the same after a ReLU, [n, in] -> [n, out]."""
        if self.is_int8:
            return self._int8(torch.ops.quantized.linear_relu_dynamic, x)
        if self.is_packed:
            return self._packed(x, "relu")
        if self.weight.is_cuda and self.bias is not None:  # the product's kernel does both
            rows = self._input(x).reshape(-1, x.shape[-1])
            result = torch._addmm_activation(self.bias, rows, self.weight.t())
            return result.view(*x.shape[:-1], -1)
        return F.linear(self._input(x), self.weight, self.bias).relu_()

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x W^T + b; the residual, [n, out], may be overwritten."""
        if self.is_int8 or residual.dtype != self.dtype:
            # measured on a CPU: converting first is faster than adding two types
            return residual.add_(self(x) if residual.is_cuda else self(x).to(residual.dtype))
        if not self.is_packed:
            return self._added(residual, self._input(x))
        return torch.ops.mkldnn._linear_pointwise.binary(  # type: ignore[no-any-return]
            self._input(x), residual, self.weight, self.bias, "add"
        )

    def _input(self, x: Tensor) -> Tensor:
        """Return x in the precision of the product; a conversion to its own type takes time too."""
        return x if x.dtype == self.dtype else x.to(self.dtype)

    def _added(self, residual: Tensor, x: Tensor) -> Tensor:
        """Add the product in place: MKL writes it nowhere else first."""
        total = residual if self.bias is None else residual.add_(self.bias)
        total.view(-1, total.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), self.weight.t())
        return total

    def _packed(self, x: Tensor, function: str) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(  # type: ignore[no-any-return]
            self._input(x), self.weight, self.bias, function, [], ""
        )

    def _int8(self, product: Callable[..., Tensor], x: Tensor) -> Tensor:
        return product(self._input(x), self.weight, has_narrow_sums())


def product_type(precision: str, dtype: torch.dtype) -> torch.dtype:
    """Return the type of products in a precision: ``fp32`` stands for that of the weights."""
    return {"bf16": torch.bfloat16, "int8": torch.qint8}.get(precision, dtype)


def input_type(dtype: torch.dtype) -> torch.dtype:
    """Return the type of the inputs of products of a type."""
    return torch.float32 if dtype == torch.qint8 else dtype


def packed_int8(weight: Tensor, bias: Tensor | None) -> Any:
    """Round weights to int8, [out, in], and lay them out for torch's kernels."""
    scale = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / 127
    zeros = torch.zeros(len(weight), dtype=torch.int64)
    with warnings.catch_warnings():  # from 2.12 on torch announces an end of quantised tensors
        warnings.simplefilter("ignore", UserWarning)
        rounded = torch.quantize_per_channel(weight, scale, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(rounded, bias)


@functools.cache
def has_narrow_sums() -> bool:
    """Return whether products of int8 are added in 16 bits here, so that inputs must be smaller."""
    ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    known = ask()  # missing in older versions of torch
    return not any(known.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def has_int8() -> bool:
    """Return whether this torch has kernels for int8 weights."""
    return torch.backends.quantized.engine != "none"


def is_packable(weight: Tensor) -> bool:
    """Return whether oneDNN takes weights of this type here and computes in it."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32 and is_onednn_real_float32()
