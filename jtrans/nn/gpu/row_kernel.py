"""A Triton kernel of a linear map of a few rows, from the norm of its input to the residual.

A program computes a tile of the result. With a norm it first reads its rows twice for their
statistics, as all programs of the same rows do: that takes less time than another launch.

This module imports Triton; `row_linear.py` imports it when a GPU is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from jtrans.nn.gpu.short_axis import on_device_of, product


@dataclass(frozen=True)
class RowTile:
    """The shape of a program's tile of the result."""

    rows: int
    columns: int
    features: int  # input features read at a time
    warps: int


# 16 is the smallest side of a factor of a product
FEW, SOME, MANY = RowTile(16, 32, 64, 4), RowTile(32, 64, 32, 4), RowTile(64, 64, 32, 8)
STAGES = 3  # pipelined: features are read while earlier ones are multiplied


def tile_for(rows: int) -> RowTile:
    """Return the usual tile, a small one if larger ones would leave processors idle."""
    return FEW if rows <= 64 else SOME if rows <= 512 else MANY


@triton.jit  # type: ignore[untyped-decorator]
def _read(x, row, start, rows, WIDTH: tl.constexpr, FEATURES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return some features of rows, float32, 0 outside the matrix."""
    feature = start + tl.arange(0, FEATURES)
    is_here = (row < rows)[:, None] & (feature < WIDTH)[None, :]
    y = tl.load(x + row[:, None] * WIDTH + feature[None, :], mask=is_here, other=0.0)
    return y.to(tl.float32), feature, is_here


@triton.jit  # type: ignore[untyped-decorator]
def _statistics(  # type: ignore[no-untyped-def]
    x, row, rows, eps, WIDTH: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr
):
    """Return mean and ``1 / sqrt(var + eps)`` of rows."""
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, WIDTH, FEATURES):
        y, _, _ = _read(x, row, start, rows, WIDTH, FEATURES)
        total += tl.sum(y, 1)
    mean = total / WIDTH
    squares = tl.zeros([ROWS], tl.float32)
    for start in range(0, WIDTH, FEATURES):
        y, _, is_here = _read(x, row, start, rows, WIDTH, FEATURES)
        centred = tl.where(is_here, y - mean[:, None], 0.0)
        squares += tl.sum(centred * centred, 1)
    return mean, 1.0 / tl.sqrt(squares / WIDTH + eps)


@triton.jit(do_not_specialize=["rows", "eps"])  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    x, weight, bias, residual, out, rows, eps,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLUMNS: tl.constexpr, FEATURES: tl.constexpr,
    HAS_NORM: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RELU: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)
    row = (tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)).to(tl.int64)
    is_row, is_column = (row < rows)[:, None], (column < COLUMNS)[None, :]
    total = tl.zeros([TILE_ROWS, TILE_COLUMNS], tl.float32)
    if HAS_NORM:
        mean, scale = _statistics(x, row, rows, eps, WIDTH, TILE_ROWS, FEATURES)
    for start in range(0, WIDTH, FEATURES):
        y, feature, is_here = _read(x, row, start, rows, WIDTH, FEATURES)
        w = tl.load(
            weight + column[None, :] * WIDTH + feature[:, None],
            mask=(feature < WIDTH)[:, None] & is_column,
            other=0.0,
        )
        if HAS_NORM:
            y = tl.where(is_here, (y - mean[:, None]) * scale[:, None], 0.0)
        total += product(y.to(w.dtype), w)
    if HAS_BIAS:
        total += tl.load(bias + column, mask=column < COLUMNS, other=0.0)[None, :].to(tl.float32)
    if HAS_RELU:
        total = tl.where(total < 0.0, 0.0, total)  # keeps nan
    place = row[:, None] * COLUMNS + column[None, :]
    if HAS_RESIDUAL:
        total += tl.load(residual + place, mask=is_row & is_column, other=0.0).to(tl.float32)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=is_row & is_column)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    eps: float | None,
    has_relu: bool,
    *,
    tile: RowTile | None = None,
) -> Tensor:
    """Compute `row_linear.row_linear`, with `tile` instead of the usual one if it is given."""
    x = x.contiguous()
    residual = None if residual is None else residual.contiguous()
    dtype = weight.dtype if residual is None else residual.dtype
    columns, width = weight.shape
    rows = x.shape[:-1].numel()
    out = x.new_empty(*x.shape[:-1], columns, dtype=dtype)
    tile = tile or tile_for(rows)
    with on_device_of(x):
        _kernel[(triton.cdiv(columns, tile.columns), triton.cdiv(rows, tile.rows))](
            x,
            weight,
            x if bias is None else bias,  # any pointer will do
            x if residual is None else residual,
            out,
            rows,
            0.0 if eps is None else eps,
            WIDTH=width,
            COLUMNS=columns,
            TILE_ROWS=tile.rows,
            TILE_COLUMNS=tile.columns,
            FEATURES=min(tile.features, max(16, triton.next_power_of_2(width))),
            HAS_NORM=eps is not None,
            HAS_BIAS=bias is not None,
            HAS_RELU=has_relu,
            HAS_RESIDUAL=residual is not None,
            num_warps=tile.warps,
            num_stages=STAGES,
            enable_fp_fusion=True,  # the default only up to Triton 3.9
        )
    return out
