"""The fast forms of pervasive attention on a CPU equal their plain ones."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.models.pervasive import ResidualLayer
from jtrans.models.systems import PervasiveConfig
from jtrans.nn.convolution.grid import GridConvolution
from jtrans.nn.cpu.convolution import depth_wise
from jtrans.nn.device import autocast
from jtrans.nn.fast import plain_forms

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


def results(module: torch.nn.Module, x: Tensor, *inputs: Any) -> list[Tensor]:
    """Return the output, and the gradients of the input and of every parameter."""
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    y = module(x, *inputs)
    module.zero_grad()
    (y.double() * torch.linspace(0.0, 1.0, y.numel()).view(y.shape)).sum().backward()
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    assert x.grad is not None
    return [y.detach(), x.grad, *(gradient.clone() for gradient in gradients)]


def plainly(convolution: GridConvolution, x: Tensor) -> Tensor:
    reach = convolution.reach
    padded = F.pad(x, (0, 0, 0, 0, reach, 0)).permute(0, 3, 1, 2)
    weight = convolution.weight[:, :, : reach + 1]
    groups = convolution.groups
    y = F.conv2d(padded, weight, convolution.bias, padding=(0, reach), groups=groups)
    return y.permute(0, 2, 3, 1)


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("bias", [True, False])
def test_a_depth_wise_convolution_has_the_gradients_of_torch(kernel: int, bias: bool) -> None:
    torch.manual_seed(2)
    convolution = GridConvolution(6, 6, kernel, groups=6, bias=bias).double()
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    ours = results(convolution, x)
    convolution.forward = functools.partial(plainly, convolution)  # type: ignore[method-assign]
    for mine, theirs in zip(ours, results(convolution, x), strict=True):
        torch.testing.assert_close(mine, theirs, **EXACT)


def test_a_depth_wise_convolution_in_bfloat16_is_close_to_float32() -> None:
    torch.manual_seed(3)
    convolution = GridConvolution(16, 16, 5, groups=16, bias=True)
    x = torch.randn(2, 9, 8, 16)
    exact = results(convolution, x)
    with autocast(torch.device("cpu"), "bf16"):
        rough = results(convolution, x)
    assert rough[0].dtype == torch.bfloat16
    for mine, theirs in zip(rough, exact, strict=True):
        assert mine.dtype in (theirs.dtype, torch.bfloat16)
        assert F.cosine_similarity(mine.flatten().float(), theirs.flatten(), dim=0) > 0.999


@pytest.mark.parametrize("saves_memory", [True, False])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_layer_in_blocks_equals_the_plain_one(
    rate: float, saves_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.nn.cpu.blocks.ROWS", 30)  # several parts
    torch.manual_seed(4)
    config = PervasiveConfig(channels=8, ffn_width=16, kernel=3, dropout=rate)
    layer = ResidualLayer(config).double().train()
    layer.saves_memory = saves_memory
    x = torch.randn(3, 4, 5, 8, dtype=torch.float64)
    is_real = torch.ones(3, 1, 5, 1, dtype=torch.bool)
    is_real[1, :, 3:] = False
    in_blocks = results(layer, x, is_real)
    with plain_forms():
        plain = results(layer, x, is_real)
    for ours, theirs in zip(in_blocks, plain, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_the_padded_input_is_not_saved() -> None:
    x = torch.randn(1, 6, 6, 4, requires_grad=True)
    weight = torch.randn(4, 1, 4, 7)
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        depth_wise(x, weight, None)
    assert sorted(sizes) == [weight.numel(), x.numel()]
