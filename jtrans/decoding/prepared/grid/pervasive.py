"""Pervasive attention prepared for the search on a CPU.

A step adds a row of S cells to the grid of every hypothesis. What the convolutions have read is
kept in rings (`rings.py`).

In the residual network states are kept without their powers of r = sqrt(1/2): with x = s x',

    x <- (x + Conv(W x)) r     is     x' <- x' + Conv'(W x' + b / s),     s <- s r

where Conv' has its bias divided by s as well; the same holds for the FFN, as
``relu(s z) = s relu(z)``. In the dense network a batch norm after a product is part of it, and the
channels of all layers are written side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.decoding.prepared.fixed_linear import (
    FixedLinear,
    fixed_linear,
    input_type,
    product_type,
)
from jtrans.decoding.prepared.grid.rings import GridRings
from jtrans.models.base import Memory
from jtrans.models.pervasive import (
    DenseLayer,
    DenseNetwork,
    Pervasive,
    ResidualLayer,
    ResidualNetwork,
)
from jtrans.nn.convolution.grid import GridConvolution
from jtrans.nn.convolution.grid_norm import GridBatchNorm
from jtrans.nn.convolution.grid_reduction import GatedMaxReduction
from jtrans.nn.softmax import padding_bias

_R = math.sqrt(0.5)


@dataclass
class PervasiveRows:
    """The state of N = A x beam hypotheses."""

    source: Tensor  # the source's part of the grid, [A, S, C]
    bias: Tensor | None  # 0 on real source positions, -inf on padding, [A, S]; None without padding
    rings: GridRings  # the rows that the convolutions read

    def select(self, rows: Tensor) -> PervasiveRows:
        """Return the state of the hypotheses `rows`, [A', beam']; this one must not be reused."""
        if len(rows) != len(self.source):
            left = rows[:, 0] // self.rings.beam
            self.source = self.source.index_select(0, left)
            self.bias = None if self.bias is None else self.bias.index_select(0, left)
        self.rings.select(rows)
        return self


class Network(Protocol):
    """The layers of a network."""

    held: list[int]  # channels that the convolution of each layer reads

    def __call__(self, x: Tensor, rings: GridRings, is_real: Tensor | None) -> Tensor:
        """Map the new cells.

        Args:
            x: [n, C] with n = N x S; may be overwritten.
            rings: the rows of each layer before.
            is_real: 1 on real cells, 0 on padding, [n, 1]; None without padding.

        Returns:
            [n, channels].
        """
        ...


class PreparedConvolution:
    """A convolution of rows in the rings.

    Args:
        module: the convolution.
        layer: the number of its rings.
        bias: its bias.
        dtype: type of its products.
    """

    def __init__(
        self, module: GridConvolution, layer: int, bias: Tensor | None, dtype: torch.dtype
    ) -> None:
        weight = module.weight.detach()[:, :, : module.reach + 1].to(input_type(dtype))
        self.weights = [weight[:, :, -n:].contiguous() for n in range(1, module.reach + 2)]
        self.bias = None if bias is None else bias.detach().to(weight)
        self.layer, self.groups, self.padding = layer, module.groups, (0, module.reach)

    def __call__(self, y: Tensor, rings: GridRings, is_real: Tensor | None) -> Tensor:
        """Return the convolution of cells, [n, C_in], and of those before; [n, C_out]."""
        if is_real is not None:
            y = y.mul_(is_real)
        C, N = y.shape[1], len(rings)
        read = rings.append(self.layer, y.view(N, -1))
        read = read.view(N, read.shape[1], -1, C).permute(0, 3, 1, 2)  # [N, C, r, S]
        weight = self.weights[read.shape[2] - 1]
        out = F.conv2d(read, weight, self.bias, padding=self.padding, groups=self.groups)
        return out.permute(0, 2, 3, 1).reshape(len(y), -1)


class _ResidualWeights:
    """The weights of a residual layer that reads x' = x / s."""

    def __init__(self, layer: ResidualLayer, number: int, s: float, dtype: torch.dtype) -> None:
        assert layer.convolution.bias is not None
        self.mix = fixed_linear(layer.mix.weight, layer.mix.bias / s, dtype)
        bias = layer.convolution.bias / s
        self.convolution = PreparedConvolution(layer.convolution, number, bias, dtype)
        s, inner, outer = s * _R, layer.feed_forward.inner, layer.feed_forward.outer
        self.inner = fixed_linear(inner.weight, inner.bias / s, dtype)
        self.outer = fixed_linear(outer.weight, outer.bias / s, dtype)


class PreparedResidual:
    """The residual network; `dtype` is that of its products."""

    def __init__(self, network: ResidualNetwork, dtype: torch.dtype) -> None:
        modules: list[ResidualLayer] = list(network.layers)  # type: ignore[arg-type]
        scales = [_R ** (2 * n) for n in range(len(modules) + 1)]
        self.layers = [
            _ResidualWeights(module, n, scales[n], dtype) for n, module in enumerate(modules)
        ]
        self.shares = [scale / len(scales) for scale in scales]
        self.held = [network.channels for _ in modules]

    def __call__(self, x: Tensor, rings: GridRings, is_real: Tensor | None) -> Tensor:
        """Map the new cells, as in `Network`."""
        total = x * self.shares[0]
        for layer, share in zip(self.layers, self.shares[1:], strict=True):
            x = x.add_(layer.convolution(layer.mix(x), rings, is_real))
            x = layer.outer.add_to(x, layer.inner.relu(x))
            total.add_(x, alpha=share)
        return total


class _DenseWeights:
    """The weights of a dense layer."""

    def __init__(self, layer: DenseLayer, number: int, dtype: torch.dtype) -> None:
        self.scale, self.shift = layer.norm.affine()
        self.mix = _normed(layer.mix, layer.hidden_norm, dtype)
        self.convolution = PreparedConvolution(layer.convolution, number, None, dtype)


class PreparedDense:
    """The dense network; `dtype` is that of its products."""

    def __init__(self, network: DenseNetwork, dtype: torch.dtype) -> None:
        modules: list[DenseLayer] = list(network.layers)  # type: ignore[arg-type]
        self.layers = [_DenseWeights(module, n, dtype) for n, module in enumerate(modules)]
        self.scale, self.shift = network.norm.affine()
        self.mix = _normed(network.mix, network.last_norm, dtype)
        self.held = [module.mix.out_features for module in modules]

    def __call__(self, x: Tensor, rings: GridRings, is_real: Tensor | None) -> Tensor:
        """Map the new cells, as in `Network`."""
        channels = x.new_empty(len(x), len(self.scale))
        end = x.shape[1]
        channels[:, :end] = x
        for layer in self.layers:
            read = torch.addcmul(layer.shift, channels[:, :end], layer.scale).relu_()
            new = layer.convolution(layer.mix.relu(read), rings, is_real)
            end += new.shape[1]
            channels[:, end - new.shape[1] : end] = new
        return self.mix.relu(torch.addcmul(self.shift, channels, self.scale).relu_())


class PreparedPervasive:
    """A pervasive network on a CPU.

    Args:
        model: in evaluation mode.
        precision: ``fp32``, that of the weights, ``bf16``, or ``int8`` weights. The running state
            and the aggregation are in float32 at least.
    """

    is_joint = True
    longest: int | None = None

    @torch.no_grad()
    def __init__(self, model: Pervasive, precision: str) -> None:
        self.model, self.device = model, model.device
        self.dtype = model.output.weight.dtype
        self.products = products = product_type(precision, self.dtype)
        network = model.network
        self.network: Network
        if isinstance(network, ResidualNetwork):
            self.network = PreparedResidual(network, products)
        else:
            self.network = PreparedDense(network, products)
        opening = model.opening.weight[:, model.config.width :]
        self.opening = fixed_linear(opening, None, products)
        self.reduction, self.gate = model.reduction, None
        if isinstance(model.reduction, GatedMaxReduction):
            gate = model.reduction.gate
            self.reduction = model.reduction.maximum
            self.gate = fixed_linear(gate.weight, gate.bias, products)
        closing = model.closing
        self.closing = closing and fixed_linear(closing.weight, closing.bias, products)
        self.output = fixed_linear(model.output.weight, model.output.bias, products)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone: in float32, as it is little work."""
        return self.model.encode(source, source_mask)

    def begin(self, memory: Memory, beam: int) -> PervasiveRows:
        """Return the state of B x beam empty prefixes."""
        B, S, _ = memory.states.shape
        rings = GridRings(
            [S * channels for channels in self.network.held],
            self.model.config.kernel // 2 + 1,
            sentences=B,
            beam=beam,
            dtype=input_type(self.products),
        )
        return PervasiveRows(memory.states, padding_bias(memory.mask), rings)

    def step(self, token: Tensor, state: PervasiveRows) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]: one more row of the grid."""
        rings, u, bias = state.rings, state.source, state.bias
        v = self.model.target_embedding(token[:, None], start=rings.length)[:, 0]
        v = self.opening(v).to(self.dtype).view(len(u), rings.beam, 1, -1)
        rings.advance()
        A, beam, S, C = len(u), rings.beam, u.shape[1], u.shape[2]
        x = (u[:, None] + v).view(-1, C)
        is_real = None
        if bias is not None:
            bias = bias.repeat_interleave(beam, 0)
            is_real = (bias == 0.0).to(input_type(self.products)).view(-1, 1)
        cells = self.network(x, rings, is_real)
        if self.gate is not None:
            cells = F.glu(self.gate(cells), dim=1)
        grid = cells.to(self.dtype).view(A * beam, 1, S, -1)
        hidden: Tensor = self.reduction(grid, bias)[:, 0]
        return hidden if self.closing is None else self.closing(hidden)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)


def _normed(linear: nn.Linear, norm: GridBatchNorm, dtype: torch.dtype) -> FixedLinear:
    """Return a linear map without a bias and the batch norm after it as one."""
    scale, shift = norm.affine()
    return fixed_linear(linear.weight * scale[:, None], shift, dtype)
