"""Linear maps whose weights no longer change, in the form that multiplies fastest.

On a CPU oneDNN lays the weights out once for its kernels and adds bias, ReLU and residual while
it writes the product: for 80 to 5,000 rows of 256 to 1,024 features that is 10 to 20 % faster than
MKL, and in bfloat16 as much faster than laying them out at every call. With 5 rows, where reading
the weights takes the time, MKL took 3.96 ms for those of 6 Transformer decoder layers, and packed
weights 2.12.

Where oneDNN is not exact in float32 (with AMX), MKL reads W^T laid out by rows: that takes 20 to
40 % less time than W with 5 or 20 rows, 13 to 22 % less with 80, and 4 to 7 % less with 320.

A map may begin with a layer norm, whose scale and shift become a part of its weights: with
y = (x - mean) / std, ``W LN(x) + b = (W diag(scale)) y + (W shift + b)``.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.cpu.matmul_backend import is_onednn_real_float32
from jtrans.nn.cpu.products import has_onednn_bf16
from jtrans.nn.device import cpu_capabilities
from jtrans.nn.gpu.row_linear import fuses_rows, row_linear


def fixed_linear(
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    norm: nn.LayerNorm | None = None,
) -> FixedLinear:
    """Return the map x W^T + b in the form that multiplies fastest on the device of its weight.

    Args:
        weight: W, [out, in].
        bias: b, [out].
        dtype: type of the product; with ``torch.qint8`` only W is int8, all else float32, on a CPU.
        norm: a layer norm of x that becomes part of the map; None if there is none.
    """
    standardise = None if norm is None else Standardise(norm)
    weight = weight.detach()
    if norm is not None:
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        weight, bias = with_norm(weight, bias, norm)
    weight = weight.to(input_type(dtype)).contiguous()
    bias = None if bias is None else bias.detach().to(weight.dtype)
    if dtype == torch.qint8:
        return QuantizedLinear(weight, bias, standardise)
    if weight.is_cuda:
        return GpuLinear(weight, bias, standardise)
    if is_packable(weight):
        return PackedLinear(weight, bias, standardise)
    if weight.device.type == "cpu":
        weight = weight.t().contiguous().t()
    return FixedLinear(weight, bias, standardise)


def with_norm(weight: Tensor, bias: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Return the weights that read ``(x - mean) / std`` where the given ones read LN(x)."""
    return weight * norm.weight.detach(), bias + weight @ norm.bias.detach()


class Standardise:
    """``(x - mean) / std`` over the last axis: a layer norm without its scale and shift."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.shape, self.eps = list(norm.normalized_shape), norm.eps
        # measured: on a CPU torch takes twice as long without scale and shift
        self._ones = torch.ones_like(norm.weight, requires_grad=False)
        self._zeros = torch.zeros_like(norm.weight, requires_grad=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``(x - mean) / std``, [..., E]."""
        return torch.layer_norm(x, self.shape, self._ones, self._zeros, self.eps)


class FixedLinear:
    """x W^T + b by torch's ordinary products.

    Args:
        weight: W, [out, in], in the type of the product.
        bias: b, [out], in the same type.
        standardise: applied to x first; None leaves x as it is.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, standardise: Standardise | None = None
    ) -> None:
        self.weight, self.bias, self.dtype = weight, bias, weight.dtype
        self.standardise = standardise
        self.transposed = weight.t()  # once, as even a view takes time

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        if x.dim() == 2 and self.bias is not None:
            return torch.addmm(self.bias, self._input(x), self.transposed)
        return F.linear(self._input(x), self.weight, self.bias)

    def relu(self, x: Tensor) -> Tensor:
        """Return the ReLU of x W^T + b, [..., in] -> [..., out]."""
        return self(x).relu_()

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x W^T + b; the residual, [..., out], may be overwritten."""
        if residual.dtype != self.dtype:
            # measured on a CPU: converting first is faster than adding two types
            return residual.add_(self(x).to(residual.dtype))
        total = residual if self.bias is None else residual.add_(self.bias)
        # in place: MKL then writes the product nowhere else first
        if total.dim() == 2:
            return total.addmm_(self._input(x), self.transposed)
        total.view(-1, total.shape[-1]).addmm_(self._rows(x), self.transposed)
        return total

    def _input(self, x: Tensor) -> Tensor:
        if self.standardise is not None:
            x = self.standardise(x)
        # even a conversion of x to its own type takes time
        return x if x.dtype == self.dtype else x.to(self.dtype)

    def _rows(self, x: Tensor) -> Tensor:
        return self._input(x).reshape(-1, x.shape[-1])


class GpuLinear(FixedLinear):
    """x W^T + b on a GPU: by one kernel, from the norm to the residual, where launches count."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        if fuses_rows(x, self.weight):
            return self._fused(x)
        return super().__call__(x)

    def relu(self, x: Tensor) -> Tensor:
        """Return the ReLU of x W^T + b, [..., in] -> [..., out], by one kernel."""
        if fuses_rows(x, self.weight):
            return self._fused(x, has_relu=True)
        if self.bias is None:
            return super().relu(x)
        result = torch._addmm_activation(self.bias, self._rows(x), self.transposed)
        return result.view(*x.shape[:-1], -1)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x W^T + b; the residual, [..., out], may be overwritten."""
        if fuses_rows(x, self.weight):
            return self._fused(x, residual)
        if residual.dtype != self.dtype:
            return residual.add_(self(x))  # one kernel, which reads both types
        return super().add_to(residual, x)

    def _fused(
        self, x: Tensor, residual: Tensor | None = None, *, has_relu: bool = False
    ) -> Tensor:
        eps = None if self.standardise is None else self.standardise.eps
        total: Tensor = row_linear(x, self.weight, self.bias, residual, eps, has_relu)
        return total


class PackedLinear(FixedLinear):
    """x W^T + b by oneDNN on a CPU, with weights laid out for its kernels."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, standardise: Standardise | None = None
    ) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self.bias, self.dtype, self.standardise = bias, weight.dtype, standardise

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        return self._followed_by("none", x)

    def relu(self, x: Tensor) -> Tensor:
        """Return the ReLU of x W^T + b, [..., in] -> [..., out]."""
        return self._followed_by("relu", x)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x W^T + b; the residual, [..., out], may be overwritten."""
        if residual.dtype != self.dtype:
            return super().add_to(residual, x)
        return torch.ops.mkldnn._linear_pointwise.binary(  # type: ignore[no-any-return]
            self._input(x), residual, self.weight, self.bias, "add"
        )

    def _followed_by(self, function: str, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(  # type: ignore[no-any-return]
            self._input(x), self.weight, self.bias, function, [], ""
        )


class QuantizedLinear(FixedLinear):
    """x W^T + b on a CPU with W in int8.

    A weight is a whole number from -127 to 127 times a scale for each output feature. The input is
    rounded at every call to 256 levels between the smallest and the largest number of all its rows,
    to 128 where products are added in 16 bits (`has_narrow_sums`).
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, standardise: Standardise | None = None
    ) -> None:
        self.bias, self.dtype = None, weight.dtype  # the packed weights hold the bias
        self.standardise = standardise
        scale = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / 127
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():  # from 2.12 on torch calls quantised tensors deprecated
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(weight, scale, zeros, 0, torch.qint8)
            self.weight = torch.ops.quantized.linear_prepack(rounded, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b, [..., in] -> [..., out]."""
        return self._product(torch.ops.quantized.linear_dynamic, x)

    def relu(self, x: Tensor) -> Tensor:
        """Return the ReLU of x W^T + b, [..., in] -> [..., out]."""
        return self._product(torch.ops.quantized.linear_relu_dynamic, x)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x W^T + b; the residual, [..., out], may be overwritten."""
        return residual.add_(self(x).to(residual.dtype))

    def _product(self, kernel: Callable[..., Tensor], x: Tensor) -> Tensor:
        return kernel(self._input(x), self.weight, has_narrow_sums())


def product_type(precision: str, dtype: torch.dtype) -> torch.dtype:
    """Return the type of products in a precision; ``fp32`` keeps the type of the weights."""
    return {"bf16": torch.bfloat16, "int8": torch.qint8}.get(precision, dtype)


def input_type(dtype: torch.dtype) -> torch.dtype:
    """Return the type of the inputs of products of a type."""
    return torch.float32 if dtype == torch.qint8 else dtype


@functools.cache
def has_narrow_sums() -> bool:
    """Return whether products of int8 are added in 16 bits here, so that inputs must be smaller."""
    known = cpu_capabilities()
    return not any(known.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def is_packable(weight: Tensor) -> bool:
    """Return whether oneDNN can pack this weight and computes in its type."""
    if weight.device.type != "cpu":
        return False
    if weight.dtype == torch.bfloat16:
        return has_onednn_bf16()
    return weight.dtype == torch.float32 and is_onednn_real_float32()
