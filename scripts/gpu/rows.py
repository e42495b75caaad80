"""The kernel of a linear map of few rows, for `check.py`: is it correct, and where is it faster?"""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor, nn

from jtrans.decoding.prepared.fixed_linear import FixedLinear, GpuLinear, Standardise
from jtrans.nn.gpu import operator
from jtrans.nn.gpu.capture import CudaCapture
from jtrans.nn.gpu.row_linear import fused_rows, row_linear
from scripts.gpu.correctness import KERNEL_TOLERANCE, comparison, distance
from scripts.gpu.timing import Row, Scale, seconds

ROWS = (5, 80, 160, 640, 2_560, 4_096, 10_240)
LAYERS = 10  # FFNs in a graph
EPS = 1e-5


def check_row_linear(scale: Scale) -> list[Row]:
    """Compare the kernel with float64 products on the same device."""
    if not operator.HAS_TRITON:
        return [{"check": "linear maps of rows", "error": "Triton is not installed", "ok": True}]
    rows = []
    for dtype, width in itertools.product(KERNEL_TOLERANCE, scale.widths):
        counts = (1, 17) if scale.is_tiny else (1, 5, 16, 33, 65, 160, 513, 2_560)
        errors = [
            _error(count, width, dtype, scale, eps) for count in counts for eps in (None, EPS)
        ]
        name = f"linear maps of rows, width {width}, {str(dtype).removeprefix('torch.')}"
        rows.append(comparison(name, max(errors), KERNEL_TOLERANCE[dtype]))
    return rows


def _error(count: int, width: int, dtype: torch.dtype, scale: Scale, eps: float | None) -> float:
    from jtrans.nn.gpu import row_kernel

    x, residual = (torch.randn(count, size, device=scale.device) for size in (width, 3 * width))
    x = x if eps is not None else x.to(dtype)
    weight = (torch.randn(3 * width, width, device=scale.device) * width**-0.5).to(dtype)
    bias = torch.randn(3 * width, device=scale.device).to(dtype)
    ours = row_kernel.linear(x, weight, bias, residual, eps, False)
    tensors = (each.cpu().double() for each in (x, weight, bias, residual))
    error = distance(ours, row_linear(*tensors, eps, False))
    return error if error == error else float("inf")  # nan


def fused(scale: Scale) -> list[Row]:
    """Question 6: time of an FFN with norm and residual in a graph, fused and not, by rows."""
    E = scale.widths[0]
    rows = []
    for dtype in KERNEL_TOLERANCE:
        norm = Standardise(nn.LayerNorm(E, device=scale.device))
        inner = GpuLinear(*_weights(4 * E, E, dtype, scale), norm)
        outer = GpuLinear(*_weights(E, 4 * E, dtype, scale))
        for count in (5,) if scale.is_tiny else ROWS:
            x = torch.randn(count, E, device=scale.device)
            work = functools.partial(_feed_forward, inner, outer, x)
            with fused_rows():
                ours = _microseconds(work, scale)
            theirs = _microseconds(work, scale)
            name = str(dtype).removeprefix("torch.")
            rows.append({"rows": count, "type": name, "us fused": ours, "us separate": theirs})
    return rows


def _weights(out: int, width: int, dtype: torch.dtype, scale: Scale) -> tuple[Tensor, Tensor]:
    weight = torch.randn(out, width, device=scale.device) * width**-0.5
    return weight.to(dtype), torch.zeros(out, device=scale.device, dtype=dtype)


def _feed_forward(inner: FixedLinear, outer: FixedLinear, x: Tensor) -> Tensor:
    x = x.clone()  # maps may overwrite it
    for _ in range(LAYERS):
        x = outer.add_to(x, inner.relu(x))
    return x


@torch.no_grad()
def _microseconds(work: functools.partial[Tensor], scale: Scale) -> float:
    """Return the time of one FFN."""
    replay = CudaCapture(scale.device)(work) if scale.device.type == "cuda" else work
    return 1e6 * seconds(replay, scale) / LAYERS
