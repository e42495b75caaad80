"""Reduction of the grid over the source (docs/systems.md 2.6; properties R4, R5)."""

from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.nn.recorder import record_attention
from jtrans.nn.reduction import AttentionReduction, MaxReduction
from jtrans.nn.softmax import padding_bias

B, T, S, E = 3, 4, 5, 8
MASK = torch.arange(S) < torch.tensor([[5], [3], [1]])
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12}


def grid() -> Tensor:
    """Return a grid whose padded columns hold large values, which must not be seen."""
    x = torch.randn(B, T, S, E, dtype=torch.float64)
    return torch.where(MASK[:, None, :, None], x, 1e3)


@torch.no_grad()
def test_zero_weights_give_the_mean_of_real_source_positions() -> None:
    reduction = AttentionReduction(E).double()
    reduction.weight.zero_()
    x = grid()
    expected = torch.stack([x[b, :, : MASK[b].sum()].mean(1) for b in range(B)])
    torch.testing.assert_close(reduction(x, padding_bias(MASK)), expected, **EXACT)


@torch.no_grad()
def test_reduction_is_its_definition_feature_by_feature() -> None:
    reduction = AttentionReduction(E).double()
    x = grid()
    reduced = reduction(x, padding_bias(MASK))
    for b, e in [(0, 0), (1, 3), (1, 7), (2, 5)]:
        real = x[b, :, : MASK[b].sum()]  # [T, S', E]
        weights = torch.softmax(real @ reduction.weight[e], dim=1)  # [T, S']
        expected = (weights * real[..., e]).sum(1)
        torch.testing.assert_close(reduced[b, :, e], expected, **EXACT)


@torch.no_grad()
def test_weights_are_one_distribution_per_feature_and_zero_on_padding() -> None:
    reduction = AttentionReduction(E).double()
    with record_attention() as recorder:
        reduction(grid(), padding_bias(MASK))
    weights = recorder[reduction]
    assert weights.shape == (B, T, S, E)
    torch.testing.assert_close(weights.sum(2), torch.ones(B, T, E, dtype=torch.float64))
    assert not weights.transpose(1, 2)[~MASK].any()
    assert (weights[0, 0] - weights[0, 0, :, :1]).abs().max() > 1e-3  # features differ


@pytest.mark.parametrize("reduction", [AttentionReduction(E).double(), MaxReduction()])
@torch.no_grad()
def test_one_source_position_is_passed_on(reduction: torch.nn.Module) -> None:
    x = torch.randn(B, T, 1, E, dtype=torch.float64)
    torch.testing.assert_close(reduction(x, None), x.squeeze(2), **EXACT)


@torch.no_grad()
def test_a_constant_on_one_feature_of_the_scores_changes_nothing() -> None:
    reduction = AttentionReduction(E).double()
    x = grid()
    x[..., 0] = 2.5  # the same at every source position: its column shifts all scores alike
    before = reduction(x, padding_bias(MASK))
    reduction.weight[3, 0] += 7.0  # adds 17.5 to the scores of feature 3
    torch.testing.assert_close(reduction(x, padding_bias(MASK)), before, **EXACT)


@torch.no_grad()
def test_the_order_of_source_positions_does_not_matter() -> None:
    x, order = grid()[:1], torch.tensor([4, 2, 0, 1, 3])
    for reduction in (AttentionReduction(E).double(), MaxReduction()):
        torch.testing.assert_close(reduction(x[:, :, order], None), reduction(x, None), **EXACT)


@torch.no_grad()
def test_the_maximum_is_over_real_source_positions() -> None:
    x = grid()
    reduction = MaxReduction()
    with record_attention() as recorder:
        reduced = reduction(x, padding_bias(MASK))
    expected = torch.stack([x[b, :, : MASK[b].sum()].amax(1) for b in range(B)])
    assert torch.equal(reduced, expected)
    assert torch.equal((recorder[reduction] * x).sum(2), expected)  # the weights say where it was


def test_fresh_weights_have_the_deviation_of_the_design() -> None:
    weight = AttentionReduction(64).weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.03)
