"""Compiled and recomputed layers drop what plain ones drop, forwards and backwards."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.nn import dropout
from jtrans.nn.encoder import EncoderLayer
from jtrans.nn.layer import compile_layers, set_recompute


def make_layer() -> EncoderLayer:
    torch.manual_seed(1)
    rates = {"dropout": 0.3, "attention_dropout": 0.2, "relu_dropout": 0.2}
    return EncoderLayer(16, 32, 2, pre_norm=True, **rates).double().train()


def gradients(layer: EncoderLayer) -> list[Tensor]:
    """The output and all gradients, with fixed draws."""
    x = torch.linspace(-1, 1, 3 * 5 * 16, dtype=torch.float64).view(3, 5, 16).sin()
    bias = torch.zeros(3, 5)
    bias[0, 4] = float("-inf")
    layer.zero_grad()
    torch.manual_seed(3)
    out = layer(x, bias)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_and_recomputed_layers_have_the_gradient_of_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dropout, "dropout_mask", dropout.mask_of_draws)  # also when not compiled
    layer = make_layer()
    expected = gradients(layer)
    compile_layers(layer)
    for policy in ("none", "layer"):
        set_recompute(layer, policy)
        for ours, theirs in zip(gradients(layer), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_generated_code_draws_no_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda _, **chosen: options.append(chosen["options"]))
    compile_layers(make_layer())
    compile_layers(make_layer(), backend="eager")
    assert options == [{"fallback_random": True}, None]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_masks_of_draws_drop_at_the_rate_and_keep_the_mean(rate: float) -> None:
    torch.manual_seed(1)
    mask = dropout.mask_of_draws((400, 500), rate, torch.empty(0, dtype=torch.bfloat16))
    assert mask.dtype == torch.bfloat16
    assert (mask == 0).double().mean().item() == pytest.approx(rate, abs=0.01)
    assert mask.double().mean().item() == pytest.approx(1.0, abs=0.02)
