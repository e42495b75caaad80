"""Biases that keep a softmax from some positions."""

import torch

from jtrans.nn.softmax import causal_bias, padding_bias, softmax


def test_a_mask_becomes_zero_and_minus_infinity() -> None:
    bias = padding_bias(torch.tensor([[True, True], [True, False]]))
    assert bias is not None
    assert bias.tolist() == [[0.0, 0.0], [0.0, float("-inf")]]


def test_a_mask_without_padding_needs_no_bias_on_a_cpu() -> None:
    assert padding_bias(torch.ones(2, 3, dtype=torch.bool)) is None


def test_a_causal_bias_hides_what_comes_later() -> None:
    weights = softmax(torch.zeros(3, 3) + causal_bias(3, torch.device("cpu")), -1)
    thirds, halves = [1 / 3] * 3, [0.5, 0.5, 0.0]
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.0, 0.0], halves, thirds]))
