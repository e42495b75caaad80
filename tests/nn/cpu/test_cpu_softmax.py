"""The softmax of short rows and its gradient equal torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jtrans.nn.cpu.products import linear, linear_relu, relu_gradient_
from jtrans.nn.cpu.softmax import is_short
from jtrans.nn.softmax import softmax

DTYPES = [torch.bfloat16, torch.float32, torch.float64]


@given(length=st.integers(1, 40), scale=st.sampled_from([0.1, 10.0, 1000.0]))
def test_softmax_and_gradient_equal_torchs_for_every_length_and_scale(
    length: int, scale: float
) -> None:
    generator = torch.Generator().manual_seed(length)
    scores = scale * torch.randn(3, 5, length, generator=generator, dtype=torch.float64)
    scores[:, 1, 1:] = float("-inf")
    scores[:, 2] -= 500.0  # the exponentials of a whole row would vanish
    seed = torch.randn(3, 5, length, generator=generator, dtype=torch.float64)
    leaf, copied = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    expected, weights = torch.softmax(leaf, -1), softmax(copied, -1)
    torch.testing.assert_close(weights, expected)
    expected.backward(seed)
    weights.backward(seed)
    torch.testing.assert_close(copied.grad, leaf.grad)


def test_scores_that_are_not_a_number_are_not_hidden() -> None:
    scores = torch.full((2, 3), float("nan"), requires_grad=True)
    assert is_short(scores)
    assert bool(softmax(scores, -1).isnan().all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_a_relu_is_zero_exactly_where_its_result_is(dtype: torch.dtype) -> None:
    hidden = torch.tensor([0.0, -0.0, 1e-30, 1.0, 3e38], dtype=dtype)
    gradient = torch.tensor([2.0, -3.0, -4.0, 5.0, -6.0], dtype=dtype)
    expected = torch.tensor([0.0, 0.0, -4.0, 5.0, -6.0], dtype=dtype)
    torch.testing.assert_close(relu_gradient_(gradient, hidden), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_maps_equal_torchs(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    x, weight, bias = (
        torch.randn(shape, generator=generator).to(dtype) for shape in ((7, 12), (20, 12), (20,))
    )
    expected = torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(linear(x, weight, bias), expected)
    torch.testing.assert_close(linear_relu(x, weight, bias), expected.relu())
