"""The kernel of a linear map of few rows, interpreted and compiled, beside a matrix product."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from nn.gpu.conftest import Interpret, compile_for_hopper
from torch import Tensor

from jtrans.decoding.prepared.fixed_linear import GpuLinear, Standardise, with_norm
from jtrans.nn.gpu import row_linear as row_linear_module
from jtrans.nn.gpu.row_linear import MOST_ROWS, fused_rows, fuses_rows, row_linear

pytest.importorskip("triton")

EPS = 1e-5
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the norm of the difference


def inputs(
    rows: int, width: int, columns: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rows whose mean is not 0, weight, bias and residual."""
    generator = torch.Generator().manual_seed(rows)
    x, weight, bias, residual = (
        torch.randn(shape, generator=generator)
        for shape in ((rows, width), (columns, width), (columns,), (rows, columns))
    )
    return (3 * x + 2).to(dtype), weight.to(dtype), bias.to(dtype), residual


def check(interpreter: Interpret, *arguments: Any, **options: Any) -> Tensor:
    """Compare the kernel with the product in float64 and return its result."""
    exact = (x.double() if isinstance(x, Tensor) else x for x in arguments)
    expected = row_linear(*exact)
    ours = interpreter("row_kernel.linear", *arguments, **options)
    distance = (ours.double() - expected).norm() / expected.norm()
    assert distance < TOLERANCE[arguments[1].dtype]  # false for nan
    return ours


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("eps", [None, EPS])
@pytest.mark.parametrize("has_relu", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
def test_all_that_surrounds_a_product_is_computed(
    interpreter: Interpret,
    dtype: torch.dtype,
    eps: float | None,
    has_relu: bool,
    has_residual: bool,
) -> None:
    x, weight, bias, residual = inputs(5, 48, 40, dtype)
    ours = check(interpreter, x, weight, bias, residual if has_residual else None, eps, has_relu)
    assert ours.dtype == (residual.dtype if has_residual else dtype)


@pytest.mark.sample(5)
@pytest.mark.parametrize("rows", [1, 16, 17, 64, 65, 513])
@pytest.mark.parametrize(("width", "columns"), [(16, 16), (24, 7), (256, 64), (300, 33)])
def test_sizes_need_not_fit_the_tiles(
    interpreter: Interpret, rows: int, width: int, columns: int
) -> None:
    for eps in (None, EPS):
        check(interpreter, *inputs(rows, width, columns, torch.float32), eps, False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("sizes", [(16, 16, 16, 4), (32, 64, 32, 4), (64, 16, 128, 8)])
def test_tiles_do_not_change_the_result(
    interpreter: Interpret, sizes: tuple[int, int, int, int]
) -> None:
    from jtrans.nn.gpu.row_kernel import RowTile

    tile = RowTile(*sizes)
    for eps in (None, EPS):
        check(interpreter, *inputs(70, 100, 90, torch.float32), eps, True, tile=tile)


def test_inputs_of_another_type_are_rounded_after_the_norm(interpreter: Interpret) -> None:
    x, weight, bias, residual = inputs(9, 64, 32, torch.float32)
    half = weight.bfloat16(), bias.bfloat16()
    ours = check(interpreter, x + 1000, *half, residual, EPS, False)  # rounded first, x is lost
    assert ours.dtype == torch.float32


def test_a_row_that_is_no_number_stays_so_and_alone(interpreter: Interpret) -> None:
    x, weight, bias, _ = inputs(3, 32, 16, torch.float32)
    x[1, 4] = float("nan")
    ours = interpreter("row_kernel.linear", x, weight, bias, None, EPS, True)
    assert ours.isnan().all(1).tolist() == [False, True, False]
    assert not ours[::2].isnan().any()


def test_more_axes_and_no_bias_are_possible(interpreter: Interpret) -> None:
    x, weight, _, residual = inputs(6, 32, 16, torch.float32)
    ours = check(interpreter, x.view(2, 3, 32), weight, None, residual.view(2, 3, 16), None, False)
    assert ours.shape == (2, 3, 16)


@pytest.mark.thorough
def test_the_operator_passes_the_checks_of_torch() -> None:
    x, weight, bias, residual = inputs(4, 24, 8, torch.float32)
    torch.library.opcheck(row_linear, (x, weight, bias, residual, EPS, True))
    torch.library.opcheck(row_linear, (x, weight, None, None, None, False))


def test_few_rows_are_fused_where_launches_count(monkeypatch: pytest.MonkeyPatch) -> None:
    norm = torch.nn.LayerNorm(24, dtype=torch.float64)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x, weight, bias, residual = (each.double().detach() for each in inputs(4, 24, 8, torch.float32))
    linear = GpuLinear(*with_norm(weight, bias, norm), Standardise(norm))
    expected = torch.nn.functional.linear(norm(x), weight, bias).detach()
    monkeypatch.setattr(row_linear_module, "is_supported", lambda *_, **__: True)
    assert not fuses_rows(x, weight)
    with fused_rows():
        assert fuses_rows(x, weight)
        assert not fuses_rows(x.expand(MOST_ROWS, 4, 24), weight)
        torch.testing.assert_close(linear(x), expected)
        torch.testing.assert_close(linear.relu(x), expected.relu())
        torch.testing.assert_close(linear.add_to(residual, x), residual + expected)


@pytest.mark.thorough
@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="nothing is compiled by it")
@pytest.mark.parametrize("types", ["bf16", pytest.param("fp32", marks=pytest.mark.slow)])
def test_the_kernel_compiles_for_hopper(
    types: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.nn.gpu import row_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    pointers = {"weight": f"*{types}", "bias": f"*{types}"}
    pointers |= dict.fromkeys(("x", "residual", "out"), "*fp32") | {"eps": "fp32"}
    for tile in (row_kernel.FEW, row_kernel.SOME, row_kernel.MANY):
        for has_norm in (True, False):
            constants = {"WIDTH": 256, "COLUMNS": 768, "HAS_BIAS": True}
            constants |= {"TILE_ROWS": tile.rows, "TILE_COLUMNS": tile.columns}
            constants |= {"FEATURES": tile.features, "HAS_NORM": has_norm}
            constants |= {"HAS_RELU": True, "HAS_RESIDUAL": not has_norm}
            compiled = compile_for_hopper(
                row_kernel._kernel, pointers, constants, tile.warps, row_kernel.STAGES
            )
            assert len(compiled.asm["cubin"]) > 0
            assert compiled.metadata.shared < 72 * 1024  # three programs at a time
