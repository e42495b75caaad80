"""Pervasive attention (Elbayad et al. 2018; the residual network: Elbayad et al. 2020).

Like the Reformers it has a vector for every pair of source and target positions and no encoder,
but its layers are masked 2-D convolutions: each reads k//2 earlier target positions, and k//2
source positions on both sides.

    u [B, S, D], v [B, T, D] = embed(source), embed(target)
    X[b, j, i]  = W [u[b, i] ; v[b, j]] + b                                 -> [B, T, S, C]
    residual :  L layers { X <- (X + Conv_k(W X)) r ; X <- (X + FFN(X)) r },  r = sqrt(1/2)
                out = mean of X_0 .. X_L
    dense    :  L layers { X <- [X ; Conv_k(relu(BN(W relu(BN(X)))))] }
                out = relu(BN(W relu(BN(X))))
    R = aggregate `out` over the source                                     -> [B, T, C]
    logits = (W R + b) W_out^T + b_out                                      -> [B, T, V]

Differs from the original code: padding of the source is zero before every convolution, and left out
of batch norm and aggregation, so that a sentence scores the same alone and in a batch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.models.base import AttentionMap, Memory, TranslationModel
from jtrans.models.parts import embedding_tables, xavier_linear
from jtrans.models.systems import PervasiveConfig
from jtrans.nn.convolution.grid import GridConvolution, GridRows
from jtrans.nn.convolution.grid_norm import GridBatchNorm
from jtrans.nn.convolution.grid_reduction import (
    GatedMaxReduction,
    MaxAttentionReduction,
    MeanReduction,
    PositionReduction,
)
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import PADDING, InputEmbedding, is_token
from jtrans.nn.fast import compute, form_in_blocks, reduce
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.layer import Layer
from jtrans.nn.recorder import record_attention
from jtrans.nn.reduction import MaxReduction
from jtrans.nn.softmax import padding_bias

_ROOT_HALF = math.sqrt(0.5)  # the sum of two independent terms keeps its variance
_BOTTLENECK = 4  # channels between the convolutions of a dense layer, per channel that it adds


class ResidualLayer(Layer):
    """A 1 x 1 and a depth-wise k x k convolution, then an FFN; no norms."""

    def __init__(self, config: PervasiveConfig) -> None:
        super().__init__()
        C = config.channels
        self.mix = xavier_linear(C, C)
        self.convolution = GridConvolution(C, C, config.kernel, groups=C, bias=True)
        self.feed_forward = FeedForward(C, config.ffn_width, SharedDropout(0.0))
        self.dropout = SharedDropout(config.dropout)
        self.saves_memory = False  # set by `layer.set_recompute`

    def forward(self, x: Tensor, is_real: Tensor | None, rows: GridRows | None = None) -> Tensor:
        """Refine the grid.

        Args:
            x: [B, T, S, C]; with `rows` the next row, [N, 1, S, C]. The result has the same shape.
            is_real: True on real source positions, [B, 1, S, 1]; None without padding.
            rows: the last rows that the convolution has read, in decoding.
        """
        y = self.mix(x)
        if is_real is not None:
            y = y * is_real.to(y.dtype)
        x = self.dropout.add(x, self.convolution(y, rows)) * _ROOT_HALF
        block, saves_memory = self.feed_forward, self.saves_memory
        in_blocks = form_in_blocks(block, x, saves_memory=saves_memory, has_norm=False)
        if in_blocks is not None:
            return in_blocks(x, None, self.dropout, scale=_ROOT_HALF)
        return self.dropout.add(x, compute(block, x, saves_memory=saves_memory)) * _ROOT_HALF


class ResidualNetwork(nn.Module):
    """Residual layers; the result is the mean of the input and all outputs."""

    def __init__(self, config: PervasiveConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ResidualLayer(config) for _ in range(config.layers))
        self.channels = config.channels

    def forward(
        self,
        x: Tensor,
        is_real: Tensor | None,
        target_mask: Tensor,
        rows: Sequence[GridRows | None],
    ) -> Tensor:
        """Map the grid, [B, T, S, C] -> [B, T, S, C], with the arguments of `DenseNetwork`."""
        total = x
        for layer, layer_rows in zip(self.layers, rows, strict=True):
            x = layer(x, is_real, layer_rows)
            total = total + x
        return total / (len(self.layers) + 1)


class DenseLayer(Layer):
    """New channels from all earlier ones: norm, 1 x 1, norm, masked k x k convolution."""

    is_compilable = False  # every layer has a different number of inputs

    def __init__(self, inputs: int, config: PervasiveConfig) -> None:
        super().__init__()
        hidden = _BOTTLENECK * config.growth
        self.norm = GridBatchNorm(inputs)
        self.mix = xavier_linear(inputs, hidden, bias=False)
        self.hidden_norm = GridBatchNorm(hidden)
        self.convolution = GridConvolution(hidden, config.growth, config.kernel, bias=False)
        self.dropout = SharedDropout(config.dropout)

    def forward(self, is_real: Tensor, rows: GridRows | None, *features: Tensor) -> Tensor:
        """Return the channels to add, [B, T, S, g].

        Args:
            is_real: True on real cells, [B, T, S, 1], or [B, 1, S, 1] in evaluation.
            rows: the last rows that the convolution has read, in decoding.
            features: the channels so far, [B, T, S, c] each.
        """
        x = torch.relu(self.norm(torch.cat(features, dim=-1), is_real))
        x = torch.relu(self.hidden_norm(self.mix(x), is_real))  # zero at padding
        return self.dropout(self.convolution(x, rows))  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def recomputing(self) -> Iterator[None]:
        """Keep the second forward pass from counting a micro-batch again in the statistics."""
        norms = (self.norm, self.hidden_norm)
        for norm in norms:
            norm.is_tracking = False
        try:
            yield
        finally:
            for norm in norms:
                norm.is_tracking = True


class DenseNetwork(nn.Module):
    """Dense layers, then a closing 1 x 1 convolution to half the channels between two norms."""

    def __init__(self, config: PervasiveConfig) -> None:
        super().__init__()
        C, growth = config.channels, config.growth
        self.layers = nn.ModuleList(
            DenseLayer(C + n * growth, config) for n in range(config.layers)
        )
        C += config.layers * growth
        self.channels = C // 2
        self.norm = GridBatchNorm(C)
        self.mix = xavier_linear(C, self.channels, bias=False)
        self.last_norm = GridBatchNorm(self.channels)

    def forward(
        self,
        x: Tensor,
        is_real: Tensor | None,
        target_mask: Tensor,
        rows: Sequence[GridRows | None],
    ) -> Tensor:
        """Map the grid.

        Args:
            x: [B, T, S, C]; in decoding the next row, [N, 1, S, C].
            is_real: True on real source positions, [B, 1, S, 1]; None without padding.
            target_mask: True on real target positions, [B, T].
            rows: for each layer, the last rows that its convolution has read, in decoding.

        Returns:
            [B, T, S, channels].
        """
        cells = target_mask[:, :, None, None] if self.training else x.new_ones(1, 1, 1, 1).bool()
        cells = cells if is_real is None else cells & is_real
        features = [x]
        for layer, layer_rows in zip(self.layers, rows, strict=True):
            features.append(layer(cells, layer_rows, *features))
        x = torch.relu(self.norm(torch.cat(features, dim=-1), cells))
        return torch.relu(self.last_norm(self.mix(x), cells))


@dataclass
class PervasiveState:
    """The state of N = B x beam hypotheses: the last k//2 rows that each convolution has read."""

    memory: Memory  # the source's part of the grid, for each of N hypotheses
    beam: int
    rows: list[GridRows]  # by layer
    length: int = 0  # positions read so far

    def select(self, rows: Tensor) -> PervasiveState:
        """Return the state of the hypotheses `rows`, [B', beam']."""
        chosen = rows.flatten()
        # if no sentence has left and each has as many hypotheses as before, their order is kept
        is_same = rows.shape[1] == self.beam and chosen.numel() == len(self.memory.mask)
        memory = self.memory if is_same else self.memory.select(chosen)
        held = [layer_rows.select(chosen) for layer_rows in self.rows]
        return PervasiveState(memory, rows.shape[1], held, self.length)


class Pervasive(TranslationModel):
    """A convolutional network over all pairs of source and target positions."""

    Config = PervasiveConfig
    is_joint = True
    tiny = {"channels": 16, "growth": 8, "kernel": 7}  # noqa: RUF012 - two layers see 7 positions
    config: PervasiveConfig

    def __init__(
        self, config: PervasiveConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        self.has_batch_statistics = config.network == "dense"
        D = config.width
        source, target = embedding_tables(config, source_vocabulary, target_vocabulary)
        self.source_embedding = _input_embedding(source, config)
        self.target_embedding = _input_embedding(target, config)
        self.opening = xavier_linear(2 * D, config.channels)
        self.network: ResidualNetwork | DenseNetwork
        if config.network == "residual":
            self.network = ResidualNetwork(config)
        else:
            self.network = DenseNetwork(config)
        C = self.network.channels
        self.reduction = _reduction(config, C)
        if config.aggregation == "max-attention":
            C *= 2
        # untied dense networks map straight to the vocabulary
        is_direct = config.network == "dense" and config.tie == "none"
        self.closing = None if is_direct else xavier_linear(C, D)
        self.dropout = SharedDropout(config.dropout)
        self.output = nn.Linear(C if is_direct else D, target_vocabulary)
        nn.init.zeros_(self.output.bias)
        if config.tie == "none":
            nn.init.normal_(self.output.weight, std=self.output.in_features**-0.5)
        else:
            self.output.weight = target.weight

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute the source's part of the grid: [B, S] -> memory of [B, S, C]."""
        u = self.source_embedding(source)  # [B, S, D]
        weight = self.opening.weight[:, : self.config.width]
        return Memory(F.linear(u, weight, self.opening.bias), source_mask)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return hidden states of all target positions, [B, T, E]."""
        x = self._grid(memory.states, self.target_embedding(target))  # [B, T, S, C]
        rows = [None] * self.config.layers
        return self._reduce(x, memory.mask, target != PADDING, rows)

    def begin(self, memory: Memory, beam: int) -> PervasiveState:
        """Return the state of empty prefixes."""
        sentences = torch.arange(memory.mask.shape[0], device=memory.mask.device)
        rows = [GridRows(self.config.kernel // 2) for _ in range(self.config.layers)]
        return PervasiveState(memory.select(sentences.repeat_interleave(beam)), beam, rows)

    def step(self, token: Tensor, state: PervasiveState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, E]: one more row of the grid."""
        memory, token = state.memory, token[:, None]
        x = self._grid(memory.states, self.target_embedding(token, start=state.length))
        state.length += 1
        return self._reduce(x, memory.mask, token != PADDING, state.rows)[:, 0]

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)  # type: ignore[no-any-return]

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        return self.output.weight, self.output.bias

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the share of each source position in the aggregation, [B, T, S].

        For a maximum, it is the share of features whose maximum lies there.
        """
        with record_attention() as weights:
            self.decode(target, self.encode(source, source != PADDING))
        recorded = [module for module in self.reduction.modules() if module in weights.calls]
        maps = []
        for module in recorded:
            name, shares = "attention", weights[module]
            if isinstance(module, MaxReduction):
                name, shares = "maximum", shares.mean(-1)  # [B, T, S, features] -> [B, T, S]
            name = name if len(recorded) > 1 else "reduction"
            maps.append(AttentionMap(name, ("target", "source"), shares))
        return maps

    def _grid(self, u: Tensor, v: Tensor) -> Tensor:
        """Return ``W [u ; v] + b`` of every pair: [B, S, C], [B, T, D] -> [B, T, S, C].

        The map of a pair is the sum of a map of each side; that of the source is already in `u`.
        """
        v = F.linear(v, self.opening.weight[:, self.config.width :])  # [B, T, C]
        dtype = torch.promote_types(u.dtype, torch.float32)
        return u.unsqueeze(1).to(dtype) + v.unsqueeze(2).to(dtype)

    def _reduce(
        self, x: Tensor, source_mask: Tensor, target_mask: Tensor, rows: Sequence[GridRows | None]
    ) -> Tensor:
        """Run the network and collapse the source axis: [B, T, S, C] -> [B, T, E]."""
        source_bias = padding_bias(source_mask)
        is_real = None if source_bias is None else source_mask[:, None, :, None]
        x = self.network(x, is_real, target_mask, rows)
        x = reduce(None, self.reduction, x, source_bias)  # R
        return self.dropout(x if self.closing is None else self.closing(x))  # type: ignore[no-any-return]


class TokenVectors(nn.Module):
    """Token vectors, scaled and without positions, then dropout; called as `InputEmbedding` is."""

    def __init__(self, tokens: nn.Embedding, scale: float, dropout: SharedDropout) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = scale
        self.dropout = dropout

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Embed token ids, [B, L] -> [B, L, D]; padding gives zero vectors."""
        x = self.tokens(ids) * self.scale
        return self.dropout(x * is_token(ids, x.dtype))  # type: ignore[no-any-return]


def _input_embedding(tokens: nn.Embedding, config: PervasiveConfig) -> nn.Module:
    dropout = SharedDropout(config.dropout)
    if not config.positions:
        scale = math.sqrt(config.width) if config.network == "residual" else 1.0
        return TokenVectors(tokens, scale, dropout)
    return InputEmbedding(
        tokens,
        layout="t2t",
        base=10000.0,
        offset=config.position_offset,
        scale_positions=False,
        dropout=dropout,
    )


def _reduction(config: PervasiveConfig, channels: int) -> nn.Module:
    def attention() -> PositionReduction:
        is_dense = config.network == "dense"
        last = xavier_linear(channels, 1)
        scores = last if is_dense else nn.Sequential(xavier_linear(channels, channels), last)
        rate = config.dropout if is_dense else 0.0
        return PositionReduction(scores, SharedDropout(rate), is_scaled=is_dense)

    if config.aggregation == "gated-max":
        return GatedMaxReduction(xavier_linear(channels, 2 * channels))
    if config.aggregation == "attention":
        return attention()
    if config.aggregation == "max-attention":
        return MaxAttentionReduction(attention())
    if config.aggregation == "max":
        return MaxReduction()
    return MeanReduction(1.0 if config.aggregation == "mean" else 0.5)
