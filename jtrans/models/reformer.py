"""Reformer (Li et al. 2020, Neural Machine Translation with Joint Representation).

Not the memory-efficient model of the same name. There is no decoder that attends to an encoder:
every pair (source position i, target position j) has a vector, and one stack of layers refines
the grid [B, T, S, E].

    u [B, S, E] = embed(source)            (Reformer-fast: then the PreNet, an ordinary encoder)
    v [B, T, E] = embed(target)
    X[b, j, i]  = u[b, i] + v[b, j]                                         -> [B, T, S, E]
    joint layers { target attention ; FFN ; source attention ; FFN }        -> [B, T, S, E]
    R = Reduction of X over the source                                      -> [B, T, E]
    logits = LN(R) W_out^T                                                  -> [B, T, V]

Differs from the paper, as its released code does: token vectors alone are scaled by sqrt(E);
attention is scaled by 1/sqrt(D) per head; the PreNet's output gets no second position.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jtrans.models.base import AttentionMap, Memory, TranslationModel
from jtrans.models.parts import encoder_maps, input_embeddings, output_projection, source_encoder
from jtrans.models.systems import ReformerConfig, ReformerFastConfig
from jtrans.nn.beam_cache import BeamCache, KeyValueCache
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import PADDING
from jtrans.nn.encoder import Encoder
from jtrans.nn.fast import reduce
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.layer import Layer
from jtrans.nn.memory import require_memory
from jtrans.nn.recorder import record_attention
from jtrans.nn.reduction import AttentionReduction, MaxReduction
from jtrans.nn.residual import Residual
from jtrans.nn.separable import SourceAttention, TargetAttention
from jtrans.nn.softmax import padding_bias

# Axes of [B, T, S, E] along which dropout masks are shared: those where the same information is
# repeated and which the block does not aggregate (docs/systems.md 2.5).
_OVER_SOURCE = (2,)  # D1s: output of target attention
_OVER_TARGET = (1,)  # D1t: output of source attention
_OVER_BOTH = (1, 2)  # D2, D2r: output and hidden layer of the FFN
_OVER_LINES = (1,)  # DAs, DAt: weights [B, S, H, T, T] and [B, T, H, S, S]


class JointLayer(Layer):
    """Target attention, FFN, source attention, FFN: each with its own norm and residual."""

    def __init__(self, config: ReformerConfig) -> None:
        super().__init__()
        E, F, H = config.grid_width, config.ffn_width, config.heads

        def dropout(rate: float, axes: tuple[int, ...]) -> SharedDropout:
            return SharedDropout(rate, axes if config.grid_dropout == "shared" else ())

        def residual(axes: tuple[int, ...]) -> Residual:
            return Residual(E, dropout(config.dropout, axes), pre_norm=config.norm == "pre")

        def feed_forward() -> FeedForward:
            return FeedForward(E, F, dropout(config.relu_dropout, _OVER_BOTH))

        weights_dropout = dropout(config.attention_dropout, _OVER_LINES)
        self.target_attention = TargetAttention(E, H, weights_dropout)
        self.target_ffn = feed_forward()
        self.source_attention = SourceAttention(E, H, weights_dropout)
        self.source_ffn = feed_forward()
        self.residuals = nn.ModuleList(
            residual(axes) for axes in (_OVER_SOURCE, _OVER_BOTH, _OVER_TARGET, _OVER_BOTH)
        )

    def forward(
        self,
        x: Tensor,
        source_bias: Tensor | None,
        *,
        cache: KeyValueCache | None = None,
        slot_bias: Tensor | None = None,
    ) -> Tensor:
        """Refine the grid.

        Args:
            x: [B, T, S, E]; with a cache the next target position of the hypotheses of each
                sentence, [B, beam, S, E]. The result has the same shape.
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
            cache: earlier target positions, in slots; source attention needs no cache.
            slot_bias: 0 on slots that a hypothesis attends to, -inf on others, [B, beam, slots].
        """
        along_target, first, along_source, second = self.residuals
        # X <- X + D1s(TargetAttention(LN(X))), and so on (docs/systems.md 2.4)
        x = along_target(x, self.target_attention, cache=cache, slot_bias=slot_bias)
        x = first(x, self.target_ffn)
        x = along_source(x, self.source_attention, source_bias=source_bias)
        return second(x, self.source_ffn)  # type: ignore[no-any-return]


@dataclass
class ReformerState:
    """The state of N = B x beam hypotheses: keys and values of target attention in each layer."""

    memory: Memory
    source_bias: Tensor | None  # 0 on real source positions, -inf on padding, [B, S]
    cache: BeamCache

    def select(self, rows: Tensor) -> ReformerState:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        memory, bias = self.memory, self.source_bias
        if len(rows) != len(memory.mask):  # sentences have left; otherwise their order is kept
            sentences = rows[:, 0] // self.cache.beam
            memory = memory.select(sentences)
            bias = None if bias is None else bias[sentences]
        return ReformerState(memory, bias, self.cache.select(rows))


class Reformer(TranslationModel):
    """Reformer-base, and with a PreNet Reformer-fast."""

    Config = ReformerConfig
    is_joint = True
    config: ReformerConfig

    def __init__(
        self, config: ReformerConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        E = config.grid_width
        self.source_embedding, self.target_embedding = input_embeddings(
            config, source_vocabulary, target_vocabulary
        )
        self.prenet: Encoder | None = None
        if isinstance(config, ReformerFastConfig):
            self.prenet = source_encoder(config, config.prenet_layers)
        if config.side_vectors:
            self.source_embedding.add_side_vector()
            self.target_embedding.add_side_vector()
        self.layers = nn.ModuleList(JointLayer(config) for _ in range(config.layers))
        self.grid_norm = nn.LayerNorm(E) if config.norm == "pre" else None
        self.reduction = (
            AttentionReduction(E) if config.reduction == "attention" else MaxReduction()
        )
        self.output_norm = nn.LayerNorm(E)
        self.output = output_projection(config, self.target_embedding, E, target_vocabulary)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Embed the source and, in Reformer-fast, run the PreNet: [B, S] -> memory of [B, S, E]."""
        u = self.source_embedding(source)  # [B, S, E]
        if self.prenet is not None:
            u = self.prenet(u, padding_bias(source_mask))
        return Memory(u, source_mask)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return hidden states of all target positions, [B, T, E]."""
        source_bias = padding_bias(memory.mask)
        x = self._grid(memory.states, self.target_embedding(target))  # [B, T, S, E]
        for layer in self.layers:
            x = layer(x, source_bias)
        return self._reduce(x, source_bias)

    def begin(self, memory: Memory, beam: int) -> ReformerState:
        """Return the state of empty prefixes; the source is kept once per sentence."""
        cache = BeamCache.empty(len(self.layers), len(memory.mask), beam, memory.mask.device)
        return ReformerState(memory, padding_bias(memory.mask), cache)

    def step(self, token: Tensor, state: ReformerState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, E]: one more row of the grid."""
        cache, source_bias = state.cache, state.source_bias
        v = self.target_embedding(token[:, None], start=cache.length)  # [N, 1, E]
        v = v.view(-1, cache.beam, v.shape[-1])  # [B, beam, E]
        x = self._grid(state.memory.states, v)  # [B, beam, S, E]: hypotheses instead of T
        slot_bias = cache.advance()
        for layer, slots in zip(self.layers, cache.layers, strict=True):
            x = layer(x, source_bias, cache=slots, slot_bias=slot_bias)
        return self._reduce(x, source_bias).flatten(0, 1)  # [N, E]

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)  # type: ignore[no-any-return]

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        return self.output.weight, self.output.bias

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the weights of the PreNet, both separable attentions and the Reduction."""
        with record_attention() as weights:
            self.decode(target, self.encode(source, source != PADDING))
        maps = encoder_maps(self.prenet.layers if self.prenet else (), weights, "prenet")
        for n, layer in enumerate(self.layers):
            axes = ("source", "head", "target", "target")
            along_target = weights[layer.target_attention.attention]  # type: ignore[union-attr]
            maps.append(AttentionMap(f"joint.{n}.target", axes, along_target))
            axes = ("target", "head", "source", "source")
            along_source = weights[layer.source_attention.attention]  # type: ignore[union-attr]
            maps.append(AttentionMap(f"joint.{n}.source", axes, along_source))
        over_source = weights[self.reduction].permute(0, 3, 1, 2)  # [B, E, T, S]
        maps.append(AttentionMap("reduction", ("feature", "target", "source"), over_source))
        return maps

    def _grid(self, u: Tensor, v: Tensor) -> Tensor:
        """Add or concatenate all pairs of source and target vectors, [B, S, E] and [B, T, E]."""
        u, v = u.unsqueeze(1), v.unsqueeze(2)  # [B, 1, S, E], [B, T, 1, E]
        vectors = v.shape[0] * v.shape[1] * u.shape[2]
        size = 2 * vectors * self.config.grid_width * u.element_size()  # before and after a block
        require_memory(size, u.device, "the vectors of a grid")
        if self.config.grid == "sum":
            return u + v  # X_0 (docs/systems.md 2.2)
        S, T = u.shape[2], v.shape[1]
        return torch.cat([u.expand(-1, T, -1, -1), v.expand(-1, -1, S, -1)], dim=-1)

    def _reduce(self, x: Tensor, source_bias: Tensor | None) -> Tensor:
        """Collapse the source axis: [B, T, S, E] -> [B, T, E] (docs/systems.md 2.6)."""
        x = reduce(self.grid_norm, self.reduction, x, source_bias)  # R, of Z = LN_r(X)
        return self.output_norm(x)  # type: ignore[no-any-return]


class ReformerFast(Reformer):
    """Reformer with a PreNet, a source encoder before the grid."""

    Config = ReformerFastConfig
