"""The feed-forward block, the residual wrapping and the encoder stack (docs/systems.md 0.4)."""

import math

import pytest
import torch
import torch.nn.functional as F

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.encoder import Encoder
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.residual import Residual


def test_feed_forward_is_its_formula() -> None:
    block = FeedForward(8, 12, SharedDropout(0.0))
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 3, 5, 8)
    hidden = torch.clamp(x @ block.inner.weight.t() + block.inner.bias, min=0)
    torch.testing.assert_close(block(x), hidden @ block.outer.weight.t() + block.outer.bias)


def test_feed_forward_leaves_its_input_alone() -> None:
    x = torch.randn(2, 8)
    before = x.clone()
    FeedForward(8, 12, SharedDropout(0.0))(x)
    assert torch.equal(x, before)


def test_feed_forward_is_drawn_xavier_uniform_with_zero_biases() -> None:
    block = FeedForward(64, 128, SharedDropout(0.0))
    bound = math.sqrt(6 / 192)
    for linear in (block.inner, block.outer):
        assert 0.98 * bound < linear.weight.abs().max() <= bound
        assert linear.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
        assert not linear.bias.any()


def test_dropout_of_feed_forward_is_after_the_relu() -> None:
    block = FeedForward(8, 4000, SharedDropout(0.5)).train()
    torch.nn.init.ones_(block.outer.weight)
    torch.nn.init.zeros_(block.inner.weight)
    torch.nn.init.ones_(block.inner.bias)  # every hidden feature is 1, then 0 or 2
    sums = block(torch.randn(50, 8))[:, 0]
    assert sums.mean().item() == pytest.approx(4000, rel=0.02)
    assert len(set(sums.tolist())) > 10


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_residual_norms_before_or_after(pre_norm: bool) -> None:
    residual = Residual(8, SharedDropout(0.0), pre_norm=pre_norm)
    x = torch.randn(2, 3, 8)

    def block(y: torch.Tensor) -> torch.Tensor:
        return 3 * y + 1

    expected = x + block(F.layer_norm(x, (8,))) if pre_norm else F.layer_norm(x + block(x), (8,))
    torch.testing.assert_close(residual(x, block), expected)


def test_layer_norm_starts_as_the_plain_one() -> None:
    norm = Residual(8, SharedDropout(0.0), pre_norm=True).norm
    x = torch.randn(50, 8) * 1e-2
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    torch.testing.assert_close(norm(x), expected)  # biased variance, eps 1e-5


@pytest.mark.parametrize("pre_norm", [True, False])
def test_an_encoder_is_its_layers_and_with_pre_norm_one_more_norm(pre_norm: bool) -> None:
    encoder = Encoder(
        2, 8, 16, 2, pre_norm=pre_norm, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0
    )
    x = torch.randn(2, 5, 8)
    bias = torch.zeros(2, 5)
    bias[1, 3:] = float("-inf")
    expected = x
    for layer in encoder.layers:
        expected = layer(expected, bias)
    expected = F.layer_norm(expected, (8,)) if pre_norm else expected
    torch.testing.assert_close(encoder(x, bias), expected)
