"""ConvS2S (docs/systems.md 9.1) prepared for the search on a CPU.

Weight normalisation is computed once, and so is all scaling. States are kept without their powers
of R = sqrt(1/2): with ``x_n = s_n x'_n``, the sum ``x_n = (u + x_j) R`` becomes
``x'_n = u / s_j + x'_j`` with ``s_n = s_j R``, and the rest is done by the weights that read x' and
give u.

There is one head, so an attention with its matrices W and W' is two products of a state with
matrices that depend on the source alone, prepared once per sentence:

    R (W u + b + g) z^T          = u (z R W)^T + R (b + g) z^T
    W' (A values) + b'           = A (values W'^T + b')            as the rows of A sum to 1

The share of the target tokens, ``R g z^T``, is the same for all layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.decoding.prepared.base import encoded
from jtrans.decoding.prepared.fixed_linear import fixed_linear, product_type
from jtrans.decoding.prepared.target import (
    at_least_read,
    attention_type,
    keep_sentences,
    weights_of,
)
from jtrans.models.base import Memory
from jtrans.models.convs2s import AttendedSource, ConvolutionDecoderLayer, ConvS2S, Convs2sMemory, R
from jtrans.nn.convolution.weight_norm import WeightNormLinear


@dataclass
class AttendedLayers:
    """The source of B sentences as the layers read it, S at least `LEAST_READ`."""

    tokens: Tensor  # R z, by which target tokens are multiplied, [B, E, S]
    bias: Tensor  # of the scores of the A layers with attention, -inf on padding, [B, A, 1, S]
    keys: list[Tensor]  # of these layers, [B, C, S]
    values: list[Tensor]  # of these layers, [B, S, C]

    def scores_of_tokens(self, g: Tensor) -> list[Tensor]:
        """Return what embedded tokens, [N, E], add to the scores of each layer, [B, beam, S]."""
        B, E, _ = self.tokens.shape
        scores = torch.bmm(g.view(B, -1, E), self.tokens)
        return list((self.bias + scores[:, None]).unbind(1))

    def keep(self, sentences: Tensor) -> None:
        """Keep some sentences, [B'], in place."""
        self.tokens, self.bias = (keep_sentences(x, 0, sentences) for x in (self.tokens, self.bias))
        self.keys, self.values = (
            [keep_sentences(x, 0, sentences) for x in held] for held in (self.keys, self.values)
        )


@dataclass
class ConvolutionState:
    """The state of N = B x beam hypotheses, whose size does not depend on the prefix."""

    source: AttendedLayers
    windows: Tensor  # of all layers side by side, the last kernel - 1 inputs, [N, sum of inputs]
    length: int = 0  # positions read so far

    def select(self, rows: Tensor) -> ConvolutionState:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        B = len(self.source.tokens)
        if len(rows) != B:  # sentences have left; otherwise their order is kept
            self.source.keep(rows[:, 0] // (len(self.windows) // B))
        self.windows = self.windows.index_select(0, rows.flatten())
        return self


class ConvolutionWeights:
    """The weights of a decoder layer.

    Args:
        layer: the layer.
        scale: s, the scale of the state that it reads.
        added: s_j, that of the state that is added; 1 if there is none.
        dtype: type of the products.
    """

    def __init__(
        self, layer: ConvolutionDecoderLayer, scale: float, added: float, dtype: torch.dtype
    ) -> None:
        convolution, attention, shortcut = layer.convolution, layer.attention, layer.shortcut
        weight, bias = _linear(convolution.linear)
        weight = weight * scale
        C = len(weight) // 2
        self.kept = weight.shape[1] // convolution.kernel * (convolution.kernel - 1)
        # u' = gate u
        self.gate = (R if attention is not None else 1.0) / added
        rows = torch.ones_like(bias)
        rows[:C] = self.gate
        self.convolution = fixed_linear(weight * rows[:, None], bias * rows, dtype)
        self.shortcut = None
        if shortcut is not None and shortcut.projection is not None:
            weight, bias = _linear(shortcut.projection)
            self.shortcut = fixed_linear(weight, bias / added, dtype)
        self.attention = None
        if attention is not None:
            query, query_bias = _linear(attention.query)
            out, out_bias = _linear(attention.out)
            self.attention = query / self.gate, query_bias, out * self.gate, out_bias * self.gate


class PreparedConvS2S:
    """A ConvS2S on a CPU.

    Args:
        model: in evaluation mode.
        precision: ``fp32``, that of the weights, ``bf16``, or ``int8`` weights. Attention is in
            float32 at least.
    """

    is_joint = False

    @torch.no_grad()
    def __init__(self, model: ConvS2S, precision: str) -> None:
        self.model, self.precision = model, precision
        self.longest, self.device = model.longest, model.device
        weight = model.target_embedding.tokens.weight
        products = product_type(precision, weight.dtype)
        self.dtype = attention_type(products, weight.device)
        self.residuals = model.residuals[1]
        self.input = fixed_linear(*_linear(model.target_input), products)
        scales = [1.0]
        self.layers: list[ConvolutionWeights] = []
        for layer, residual in zip(model.layers, self.residuals, strict=True):
            assert isinstance(layer, ConvolutionDecoderLayer)
            added = scales[-residual] if residual else 1.0
            self.layers.append(ConvolutionWeights(layer, scales[-1], added, products))
            scales.append(added * R if residual else 1.0)
        last, bias = _linear(model.last)
        self.last = fixed_linear(last * scales[-1], bias, products)
        self.output = fixed_linear(*model.output_weights(), products)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        return encoded(self.model, self.precision, source, source_mask)

    def begin(self, memory: Convs2sMemory, beam: int) -> ConvolutionState:
        """Return the state of B x beam empty prefixes."""
        windows = sum(layer.kept for layer in self.layers)
        B = len(memory.mask)
        empty = torch.zeros(B * beam, windows, dtype=self.dtype)
        return ConvolutionState(self._attended(memory), empty)

    def step(self, token: Tensor, state: ConvolutionState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, O]."""
        g = self.model.target_embedding(token[:, None], start=state.length)[:, 0]  # [N, E]
        state.length += 1
        source = state.source
        attended = zip(source.scores_of_tokens(g), source.keys, source.values, strict=True)
        states = [self.input(g).to(self.dtype)]
        before = state.windows.split([layer.kept for layer in self.layers], dim=1)
        windows: list[Tensor] = []
        for layer, earlier, residual in zip(self.layers, before, self.residuals, strict=True):
            x = states[-1]
            window = torch.cat([earlier, x], dim=1)  # [N, kernel * inputs]
            windows.append(window[:, x.shape[1] :])
            u = F.glu(layer.convolution(window), dim=-1).to(self.dtype)
            total = u
            if residual:
                added = states[-residual]
                total = u + (added if layer.shortcut is None else layer.shortcut(added))
            if layer.attention is not None:
                total = _attend(u, total, *next(attended))
            states.append(total)
        state.windows = torch.cat(windows, dim=1)
        return self.last(states[-1])

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., O] -> [..., V]."""
        return self.output(hidden)

    def _attended(self, memory: Convs2sMemory) -> AttendedLayers:
        """Prepare the source for all layers."""
        keys, values, bias = AttendedSource.of(memory)
        B, S, _ = keys.shape
        if bias is None:
            bias = keys.new_zeros(B, 1, S)
        bias, keys, values = at_least_read(bias, keys, values)
        keys, values, bias = (x.to(self.dtype) for x in (R * keys, values, bias))
        weights = [layer.attention for layer in self.layers if layer.attention is not None]
        biases = torch.stack([keys @ query_bias.to(keys) for _, query_bias, _, _ in weights], 1)
        return AttendedLayers(
            keys.mT.contiguous(),
            (biases + bias)[:, :, None],
            [(keys @ query.to(keys)).mT for query, _, _, _ in weights],
            [F.linear(values, out.to(keys), bias.to(keys)) for _, _, out, bias in weights],
        )


def _attend(u: Tensor, total: Tensor, bias: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return `total`, [N, C], plus the attention of a convolution's outputs u, [N, C]."""
    B, C, _ = keys.shape
    weights = weights_of(torch.baddbmm(bias, u.view(B, -1, C), keys))  # [B, beam, S]
    return torch.baddbmm(total.view(B, -1, C), weights, values).view_as(total)


def _linear(module: WeightNormLinear) -> tuple[Tensor, Tensor]:
    """Return the normalised weight and the bias of a linear map."""
    return module.weight().detach(), module.bias.detach()
