"""Dropout with shared masks (docs/systems.md 2.5, property R3)."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.nn.dropout import SharedDropout, dropout_mask


def varying_axes(x: torch.Tensor) -> set[int]:
    """Return the axes along which `x` is not constant."""
    return {axis for axis in range(x.dim()) if (x != x.narrow(axis, 0, 1)).any()}


@pytest.mark.parametrize("shared", [(), (1,), (2,), (1, 2), (0, 3)])
def test_a_mask_is_constant_along_exactly_the_shared_axes(shared: Sequence[int]) -> None:
    dropout = SharedDropout(0.5, shared).train()
    dropped = dropout(torch.ones(5, 6, 7, 8))
    assert varying_axes(dropped) == {0, 1, 2, 3} - set(shared)


@settings(deadline=None, max_examples=20)
@given(rate=st.floats(0.01, 0.99), shared=st.sampled_from([(), (1,)]))
def test_values_are_dropped_or_scaled_up(rate: float, shared: Sequence[int]) -> None:
    dropped = SharedDropout(rate, shared).train()(torch.ones(20, 3, 30, dtype=torch.float64))
    kept = dropped[dropped != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rate)))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7])
def test_the_rate_is_the_share_of_zeros_and_the_mean_is_kept(rate: float) -> None:
    mask = dropout_mask((400, 500), rate, torch.empty(0))
    assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
    assert mask.mean().item() == pytest.approx(1.0, abs=0.01)


def test_a_rate_near_one_drops_nearly_everything() -> None:
    mask = dropout_mask((1000,), 0.9999999, torch.empty(0))  # beyond the grain of the draws
    assert (mask == 0).float().mean() > 0.99


def test_a_mask_follows_type_and_shape() -> None:
    mask = SharedDropout(0.5, (1,)).mask(torch.ones(2, 3, 4, dtype=torch.bfloat16))
    assert mask is not None
    assert mask.shape == (2, 1, 4)
    assert mask.dtype == torch.bfloat16


@pytest.mark.parametrize("shared", [(), (1,)])
@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True)])
def test_nothing_is_dropped_in_evaluation_or_at_rate_zero(
    shared: Sequence[int], rate: float, training: bool
) -> None:
    dropout = SharedDropout(rate, shared).train(training)
    x, residual = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    assert not dropout.is_on
    assert torch.equal(dropout(x), x)
    assert torch.equal(dropout.add(residual, x), residual + x)


@pytest.mark.parametrize("shared", [(), (1,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adding_to_a_residual_is_dropout_then_addition(
    shared: Sequence[int], dtype: torch.dtype
) -> None:
    dropout = SharedDropout(0.5, shared).train()
    x, residual = torch.randn(4, 3, 8).to(dtype), torch.randn(4, 3, 8)
    torch.manual_seed(7)
    together = dropout.add(residual, x)
    torch.manual_seed(7)
    torch.testing.assert_close(together, residual + dropout(x))


def test_dropped_features_get_no_gradient_and_kept_ones_are_scaled() -> None:
    x = torch.randn(4, 5, 6, requires_grad=True)
    dropped = SharedDropout(0.5, (1,)).train().add(torch.zeros(4, 5, 6), x)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(dropped == 0, 0.0, 2.0))
