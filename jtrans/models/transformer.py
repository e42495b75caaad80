"""Transformer (Vaswani et al. 2017): the encoder-decoder with which all others are compared.

    source [B, S] -> embed -> encoder layers { self-attention ; FFN }                  -> [B, S, E]
    target [B, T] -> embed -> decoder layers { causal self-attention ;
                                               attention to the source ; FFN }         -> [B, T, E]
    logits = hidden W_out^T                                                            -> [B, T, V]

Every block is wrapped in a residual with layer norm, before it (pre-norm, the baseline of the
Reformer paper) or after it (post-norm, the original).

Differs from the paper: positions start at 0 in the two-halves layout of tensor2tensor and
fairseq; the output matrix has a bias only if `output_bias` is set.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jtrans.models.base import AttentionMap, Memory, TranslationModel
from jtrans.models.parts import (
    encoder_maps,
    input_embedding,
    input_embeddings,
    output_projection,
    self_attention_maps,
    source_encoder,
)
from jtrans.models.systems import TransformerConfig
from jtrans.nn.attention import CrossAttention, MultiHeadAttention
from jtrans.nn.beam_cache import BeamCache, KeyValueCache
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import PADDING, InputEmbedding, token_embedding
from jtrans.nn.encoder import LayerSequence
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.layer import Layer
from jtrans.nn.recorder import record_attention
from jtrans.nn.residual import Residual
from jtrans.nn.softmax import padding_bias


class DecoderLayer(Layer):
    """Causal self-attention, attention to the source, feed-forward network.

    See docs/systems.md 1.2.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        E, H = config.width, config.heads
        rate = config.attention_dropout
        self.self_attention = MultiHeadAttention(E, H, SharedDropout(rate))
        self.cross_attention = CrossAttention(E, H, SharedDropout(rate))
        self.feed_forward = FeedForward(E, config.ffn_width, SharedDropout(config.relu_dropout))
        self.residuals = nn.ModuleList(
            Residual(E, SharedDropout(config.dropout), pre_norm=config.norm == "pre")
            for _ in range(3)
        )

    @property
    def called_outside(self) -> tuple[nn.Module, ...]:
        """Return the projection of the source, which is computed once for all positions."""
        return (self.cross_attention.key_value,)

    def forward(
        self,
        x: Tensor,
        source_keys_values: tuple[Tensor, Tensor],
        source_bias: Tensor | None,
        *,
        cache: KeyValueCache | None = None,
        slot_bias: Tensor | None = None,
    ) -> Tensor:
        """Refine target states.

        Args:
            x: [B, T, E]; with a cache the next position of the hypotheses of each sentence,
                [B, beam, E]. The result has the same shape.
            source_keys_values: this layer's keys and values of the source, two [B, H, S, D].
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
            cache: earlier positions, in slots.
            slot_bias: 0 on slots that a hypothesis attends to, -inf on others, [B, beam, slots].
        """
        attention, cross, feed_forward = self.residuals
        keys, values = source_keys_values
        slots = None if slot_bias is None else slot_bias[:, None]  # [B, 1, beam, slots]
        bias = None if source_bias is None else source_bias[:, None, None, :]  # [B, 1, 1, S]
        x = attention(x, self.self_attention, bias=slots, causal=cache is None, cache=cache)
        x = cross(x, self.cross_attention, k=keys, v=values, bias=bias)
        return feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]


@dataclass
class TransformerState:
    """The state of N = B x beam hypotheses: keys and values in each decoder layer."""

    source_keys_values: list[tuple[Tensor, Tensor]]  # per layer, two [B, H, S, D]
    source_bias: Tensor | None  # 0 on real source positions, -inf on padding, [B, S]
    cache: BeamCache

    def select(self, rows: Tensor) -> TransformerState:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        source, bias = self.source_keys_values, self.source_bias
        if len(rows) != len(source[0][0]):  # sentences have left; otherwise their order is kept
            sentences = rows[:, 0] // self.cache.beam
            source = [(k[sentences], v[sentences]) for k, v in source]
            bias = None if bias is None else bias[sentences]
        return TransformerState(source, bias, self.cache.select(rows))


class TransformerDecoding:
    """The decoder's computation, for any class that holds its parts as attributes."""

    target_embedding: InputEmbedding
    layers: nn.ModuleList
    stack: nn.Module
    norm: nn.LayerNorm | None
    output: nn.Linear

    def add_decoder(self, config: TransformerConfig, vocabulary: int) -> None:
        """Add all parts but the embedding, which the class has already."""
        E = config.width
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.stack = LayerSequence(config.decoder_layers)
        self.norm = nn.LayerNorm(E) if config.norm == "pre" else None
        self.output = output_projection(
            config, self.target_embedding, E, vocabulary, bias=config.output_bias
        )

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return hidden states of all positions, [B, T, E]."""
        source_bias = padding_bias(memory.mask)
        keys_values = self._source_keys_values(memory)
        x = self.target_embedding(target)  # [B, T, E]
        x = self.stack(x, lambda n, x: self.layers[n](x, keys_values[n], source_bias))
        return self._finish(x)

    def begin(self, memory: Memory, beam: int) -> TransformerState:
        """Compute each layer's keys and values of the source, once per sentence."""
        return TransformerState(
            # contiguous: read at every step
            [(k.contiguous(), v.contiguous()) for k, v in self._source_keys_values(memory)],
            padding_bias(memory.mask),
            BeamCache.empty(len(self.layers), len(memory.mask), beam, memory.mask.device),
        )

    def step(self, token: Tensor, state: TransformerState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, E]."""
        cache = state.cache
        x = self.target_embedding(token[:, None], start=cache.length)  # [N, 1, E]
        x = x.view(-1, cache.beam, x.shape[-1])  # [B, beam, E]
        slot_bias = cache.advance()

        def layer(n: int, x: Tensor) -> Tensor:
            source, bias = state.source_keys_values[n], state.source_bias
            slots = cache.layers[n]
            return self.layers[n](x, source, bias, cache=slots, slot_bias=slot_bias)  # type: ignore[no-any-return]

        return self._finish(self.stack(x, layer)).flatten(0, 1)  # [N, E]

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)  # type: ignore[no-any-return]

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        return self.output.weight, self.output.bias

    @torch.no_grad()
    def explain_decoder(self, target: Tensor, memory: Memory) -> list[AttentionMap]:
        """Return self- and cross-attention of all layers, [B, H, T, T] and [B, H, T, S]."""
        with record_attention() as weights:
            self.decode(target, memory)
        maps: list[AttentionMap] = []
        axes = ("head", "target", "source")
        for n, layer in enumerate(self.layers):
            maps += self_attention_maps(f"decoder.{n}", layer.self_attention, "target", weights)
            maps.append(AttentionMap(f"decoder.{n}.cross", axes, weights[layer.cross_attention]))
        return maps

    def _source_keys_values(self, memory: Memory) -> list[tuple[Tensor, Tensor]]:
        attentions: list[CrossAttention] = [layer.cross_attention for layer in self.layers]  # type: ignore[misc]
        return [attention.keys_values(memory.states) for attention in attentions]

    def _finish(self, x: Tensor) -> Tensor:
        if self.norm is not None:
            x = self.norm(x)
        return x


class TransformerDecoder(TransformerDecoding, nn.Module):
    """The decoder alone, behind any encoder."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.target_embedding = input_embedding(config, token_embedding(vocabulary, config.width))
        self.add_decoder(config, vocabulary)


class Transformer(TransformerDecoding, TranslationModel):
    """The encoder-decoder model."""

    Config = TransformerConfig
    config: TransformerConfig

    def __init__(
        self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        self.source_embedding, self.target_embedding = input_embeddings(
            config, source_vocabulary, target_vocabulary
        )
        self.encoder = source_encoder(config, config.encoder_layers)
        self.add_decoder(config, target_vocabulary)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode the source, [B, S] -> memory of [B, S, E]."""
        states = self.encoder(self.source_embedding(source), padding_bias(source_mask))
        return Memory(states, source_mask)

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the self-attention of encoder and decoder and the cross-attention, all layers."""
        with record_attention() as weights:
            memory = self.encode(source, source != PADDING)
        maps = encoder_maps(self.encoder.layers, weights)
        return [*maps, *self.explain_decoder(target, memory)]
