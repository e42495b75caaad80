"""Products with round numbers of rows equal those of all rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn.cpu import linear, products, round_rows
from jtrans.nn.cpu.linear import Linear
from jtrans.nn.cpu.round_rows import FEW, STEPS


@given(st.integers(1, 40_000))
def test_parts_cover_all_rows(rows: int) -> None:
    parts = round_rows.parts(rows)
    assert parts[0][0] == 0 and parts[-1][1] == rows
    assert all(0 <= first <= end for (_, end), (first, _) in itertools.pairwise(parts))
    assert all(parts[0][1] >= first for first, _ in parts)
    repeated = sum(end - first for first, end in parts) - rows
    assert repeated <= max(0, rows // STEPS)


def test_few_numbers_of_rows_are_round() -> None:
    sizes = {end - first for rows in range(FEW + 1, 4097) for first, end in round_rows.parts(rows)}
    assert len(sizes) <= 60


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_products_are_those_of_all_rows(n: int, k: int, m: int, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(n)
    a, b, g = (torch.randn(size, generator=generator).double() for size in ((n, k), (k, m), (n, m)))
    bias = torch.randn(m, generator=generator).double() if has_bias else None
    expected = a @ b if bias is None else a @ b + bias
    torch.testing.assert_close(round_rows.product(a, b, bias), expected)
    torch.testing.assert_close(round_rows.sum_of_products(a, g, a.dtype), a.t() @ g)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", [(7, 19), (3, 5, 11), (9,)])
def test_a_linear_map_and_its_gradients(
    shape: tuple[int, ...], has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "takes", lambda dtype: True)
    monkeypatch.setattr(linear, "FEW", 16)
    monkeypatch.setattr(round_rows, "FEW", 16)
    torch.manual_seed(1)
    ours = Linear(6, 4, bias=has_bias).double()
    theirs = torch.nn.Linear(6, 4, bias=has_bias).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(*shape, 6).double()
    results = [_with_gradients(module, x) for module in (ours, theirs)]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def _with_gradients(module: torch.nn.Linear, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = module(x)
    y.square().sum().backward()
    gradients = [parameter.grad for parameter in module.parameters()]
    return [y.detach(), x.grad, *gradients]


@pytest.mark.skipif(not products.has_onednn_bf16(), reason="this processor has no bf16")
def test_in_bf16_gradients_are_as_exact_as_torchs() -> None:
    torch.manual_seed(1)
    ours, x = Linear(32, 16), torch.randn(41, 17, 32)
    theirs = torch.nn.Linear(32, 16)
    theirs.load_state_dict(ours.state_dict())
    exact = _with_gradients(theirs, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert type(ours(x).grad_fn).__name__ == "_RoundRowsBackward"
        rounded = _with_gradients(ours, x)
    assert rounded[0].dtype == torch.bfloat16
    for one, other in zip(rounded, exact, strict=True):
        error = (one.float() - other).norm() / other.norm()
        assert float(error) < 0.01
    assert all(gradient.dtype == torch.float32 for gradient in rounded[1:])
