"""Linear maps whose weights no longer change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.decoding.prepared.fixed_linear import (
    FixedLinear,
    GpuLinear,
    fixed_linear,
    has_narrow_sums,
)
from jtrans.errors import ConfigError
from jtrans.nn.device import autocast, resolve_precision


def plain(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> FixedLinear:
    """Return the form of devices without one of their own."""
    return FixedLinear(weight, bias)


def on_gpu(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> FixedLinear:
    """Return the form of a GPU, whose operations a CPU has too."""
    return GpuLinear(weight, bias)


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_a_product_is_off_by_no_more_than_its_roundings(rows: int, width: int, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(rows, width), torch.randn(9, width), torch.randn(9)
    weight[4] = 0.0
    linear = fixed_linear(weight, bias, torch.qint8)
    exact = F.linear(x, weight, bias)
    levels = 127 if has_narrow_sums() else 255
    step = (x.max().clamp_min(0) - x.min().clamp_max(0)) / levels
    scale = weight.abs().amax(1) / 127
    # each input is off by up to one level, each weight by half a step
    most = step * weight.abs().sum(1) + 0.5 * scale * (x.abs() + step).sum(1, keepdim=True) + 1e-4
    assert ((linear(x) - exact).abs() <= most).all()
    assert ((linear.relu(x) - exact.relu()).abs() <= most).all()
    assert ((linear.add_to(exact.clone(), x) - 2 * exact).abs() <= most).all()


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=2),
    st.integers(1, 70),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.sampled_from([fixed_linear, plain, on_gpu]),
)
@settings(max_examples=40, deadline=None)
def test_a_product_equals_the_module_in_any_layout(
    rows: list[int],
    width: int,
    dtype: torch.dtype,
    has_bias: bool,
    make: Callable[[Tensor, Tensor | None, torch.dtype], FixedLinear],
) -> None:
    torch.manual_seed(width)
    x, weight = torch.randn(*rows, width, dtype=dtype), torch.randn(9, width, dtype=dtype)
    bias = torch.randn(9, dtype=dtype) if has_bias else None
    linear = make(weight, bias, dtype)
    expected = F.linear(x, weight, bias)
    tolerance: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(linear(x), expected, **tolerance)
    torch.testing.assert_close(linear.relu(x), expected.relu(), **tolerance)
    residual = torch.randn_like(expected)
    sum_of_both = residual + expected
    wide, wide_sum = residual.double().clone(), sum_of_both.double()
    torch.testing.assert_close(linear.add_to(residual, x), sum_of_both, **tolerance)
    torch.testing.assert_close(linear.add_to(wide, x), wide_sum, **tolerance)


def test_int8_is_for_searching_on_a_cpu() -> None:
    assert resolve_precision(torch.device("cpu"), "int8") == "int8"
    with pytest.raises(ConfigError, match="not on cuda"):
        resolve_precision(torch.device("cuda"), "int8")
    with pytest.raises(ConfigError, match="for decoding only"):
        autocast(torch.device("cpu"), "int8")
