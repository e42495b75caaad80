"""The Transformer and the systems that share its decoder, prepared for the search.

A step computes what `jtrans.models.transformer` does in fewer operations: queries, keys and values
are one product, a residual and a ReLU are part of a product, keys and values are written in place
(`target.py`), and attention to the source is two products (`source.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from jtrans.decoding.prepared.base import encoded
from jtrans.decoding.prepared.encoder import (
    PreparedEmbedding,
    PreparedEncoder,
    PreparedFeedForward,
    norm_before,
    projection,
)
from jtrans.decoding.prepared.fixed_linear import fixed_linear, product_type
from jtrans.decoding.prepared.mixed import Kernels, MixedSlots, mixed_blocks, mixed_projection
from jtrans.decoding.prepared.source import SourceAttentions, SourceState
from jtrans.decoding.prepared.stack import Norm, stack_of
from jtrans.decoding.prepared.target import TargetSlots, attention_type
from jtrans.models.base import Memory, TranslationModel
from jtrans.models.transformer import DecoderLayer, Transformer, TransformerDecoding
from jtrans.models.transformer_pp import TransformerPlusPlus
from jtrans.nn.convolution.mixed import MixedAttention
from jtrans.nn.residual import Residual


class SelfAttention(Protocol):
    """Attention to the positions read so far, wherever their keys and values are kept."""

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Store the new keys and values and attend, [N, 3E] -> [N, E]."""
        ...


@dataclass
class PreparedState:
    """The state of N = B x beam hypotheses."""

    slots: TargetSlots
    source: SourceState

    def select(self, rows: Tensor) -> PreparedState:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        B, beam = self.sentences, self.slots.beam
        if len(rows) != B:  # sentences have left; otherwise their order is kept
            self.source.select(rows[:, 0] // beam)
        self.slots.select(rows)
        return self

    @property
    def sentences(self) -> int:
        """B."""
        return self.slots.sentences


class DecoderWeights:
    """The weights of a decoder layer without those of attention to the source."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        residuals: list[Residual] = list(layer.residuals)  # type: ignore[arg-type]
        self.norms = [Norm(residual.norm) for residual in residuals]
        block = layer.self_attention
        parts = mixed_projection(block) if isinstance(block, MixedAttention) else projection(block)
        self.projection = fixed_linear(*parts, dtype, norm_before(residuals[0]))
        self.out = fixed_linear(block.out.weight, block.out.bias, dtype)
        self.feed_forward = PreparedFeedForward(layer.feed_forward, residuals[2], dtype)


class PreparedTransformer:
    """A model whose decoder is the Transformer's.

    Args:
        model: in evaluation mode.
        decoder: its decoder.
        precision: ``fp32``, that of the weights, ``bf16``, or ``int8`` weights.
    """

    is_joint = False

    def __init__(
        self, model: TranslationModel, decoder: TransformerDecoding, precision: str
    ) -> None:
        self.model, self.precision = model, precision
        self.longest, self.device = model.longest, model.device
        weight = decoder.target_embedding.tokens.weight
        products = product_type(precision, weight.dtype)
        self.dtype = attention_type(products, weight.device)
        modules: list[DecoderLayer] = list(decoder.layers)  # type: ignore[arg-type]
        self.embedding = PreparedEmbedding(decoder.target_embedding)
        self.layers = [DecoderWeights(layer, products) for layer in modules]
        self.kernels = [Kernels.of(block, self.dtype) for block in mixed_blocks(decoder)]
        self.stack = stack_of(decoder.stack)
        residuals: list[Residual] = [layer.residuals[1] for layer in modules]  # type: ignore[misc]
        self.sources = SourceAttentions(
            [layer.cross_attention for layer in modules],
            [norm_before(residual) for residual in residuals],
            products,
        )
        self.norm = None if decoder.norm is None else Norm(decoder.norm)
        self.output = fixed_linear(decoder.output.weight, decoder.output.bias, products)
        self.encoder: PreparedEncoder | None = None
        # on a GPU the model's own encoder has kernels for attention; mixed blocks are not prepared
        keeps_encoder = self.device.type != "cpu" or isinstance(model, TransformerPlusPlus)
        if isinstance(model, Transformer) and not keeps_encoder:
            self.source_embedding = PreparedEmbedding(model.source_embedding)
            self.encoder = PreparedEncoder(model.encoder, products)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        if self.encoder is None:
            return encoded(self.model, self.precision, source, source_mask)
        x = self.source_embedding.sentence(source)
        return Memory(self.encoder(x, source_mask), source_mask)

    def begin(self, memory: Memory, beam: int, *, merges: bool = True) -> PreparedState:
        """Return the state of B x beam empty prefixes.

        Args:
            memory: the encoded sources.
            beam: hypotheses of each sentence.
            merges: whether attention to the source may be prepared further (`MergedSource`).
        """
        B, S = memory.mask.shape
        plain = partial(TargetSlots, len(self.layers))
        slots = (partial(MixedSlots, self.kernels) if self.kernels else plain)(
            sentences=B,
            beam=beam,
            heads=self.sources.heads,
            width=self.sources.width,
            expected=S + S // 2 + 10,
            dtype=self.dtype,
            device=memory.mask.device,
        )
        return PreparedState(slots, self.sources.begin(memory, merges=merges))

    def step(self, token: Tensor, state: PreparedState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]."""
        slots, source = state.slots, state.source
        x = self.embedding.position(token, slots.length)
        slots.advance()
        return self.layers_of(x, slots, source)

    def layers_of(self, x: Tensor, slots: SelfAttention, source: SourceState) -> Tensor:
        """Compute the layers for embedded tokens, [N, E] -> [N, E]."""
        layers, pre_norm = self.layers, self.norm is not None

        def compute(n: int, x: Tensor) -> Tensor:
            layer = layers[n]
            self_norm, cross_norm, ffn_norm = layer.norms
            x = layer.out.add_to(x, slots.attend(n, layer.projection(x)))
            if pre_norm:  # the norms are part of the maps that read x
                return layer.feed_forward.add_to(source.attend(n, x))
            x = cross_norm(source.attend(n, self_norm(x)))
            return ffn_norm(layer.feed_forward.add_to(x))

        x = self.stack(x, compute)
        return x if self.norm is None else self.norm(x)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)


def prepare_transformer(model: Transformer, precision: str) -> PreparedTransformer:
    """Prepare a Transformer, whose layers may read all earlier ones (DLCL)."""
    return PreparedTransformer(model, model, precision)


def prepare_transformer_pp(
    model: TransformerPlusPlus, precision: str
) -> PreparedTransformer | None:
    """Prepare a Transformer++; None with convolution on a device other than a CPU."""
    if model.config.convolution and model.device.type != "cpu":
        return None
    return PreparedTransformer(model, model, precision)
