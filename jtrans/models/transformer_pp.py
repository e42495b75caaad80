"""Transformer++ (Thapak & Hore 2020): convolution beside attention, tagging beside translation.

    source [B, S] -> embed -> mixed layer 1 -> [B, S, E] -> part of speech  [B, S, tags]
                           -> mixed layer 2 -> [B, S, E] -> named entities  [B, S, tags]
                           -> mixed layers 3 .. 6                                  -> [B, S, E]
    target [B, T] -> embed -> decoder layers { causal mixed block ;
                                               attention to the source ; FFN }     -> [B, T, E]
    logits = hidden W_out^T                                                        -> [B, T, V]

Only self-attention differs from the Transformer: in the mixed block (`jtrans.nn.convolution.mixed`)
half of the heads relate a word to other words, and half relate its neighbourhood to a summary of
the sentence. In training two linear heads predict tags of the source tokens from the first two
layers.

Differs from the paper: the text available to us lacks its formulas and numbers. docs/systems.md 6
states for every part whether it is the paper's, inferred, or our choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from jtrans.models.base import Memory
from jtrans.models.parts import xavier_linear
from jtrans.models.systems import TransformerPlusPlusConfig
from jtrans.models.transformer import Transformer, TransformerState
from jtrans.nn.beam_cache import BeamCache
from jtrans.nn.convolution.mixed import MixedAttention, MixedCache
from jtrans.nn.convolution.mixed_kernel import LocalConvolution
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.softmax import padding_bias

TAGGED_LAYERS = {"pos": 0, "ner": 1}  # the encoder layer that each kind of tag is predicted from


@dataclass
class TaggedMemory(Memory):
    """The memory of the source, and the outputs of the layers that tags are predicted from."""

    tagged: dict[str, Tensor]  # by kind of tag, [B, S, E]

    def select(self, rows: Tensor) -> TaggedMemory:
        """Return the memory of the sentences `rows`, [B']."""
        tagged = {kind: x.index_select(0, rows) for kind, x in self.tagged.items()}
        chosen = super().select(rows)
        return TaggedMemory(chosen.states, chosen.mask, tagged)


class TransformerPlusPlus(Transformer):
    """The Transformer with mixed blocks and tagging heads."""

    Config = TransformerPlusPlusConfig
    config: TransformerPlusPlusConfig
    tiny: ClassVar[Mapping[str, Any]] = {"kernels": (3,), "pos_tags": 0, "ner_tags": 0}

    def __init__(
        self, config: TransformerPlusPlusConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary)
        for embedding in (self.source_embedding, self.target_embedding):
            embedding.dropout = SharedDropout(config.embedding_dropout)
        for n, layer in enumerate(self.encoder.layers):
            if config.is_mixed_in_encoder(n):
                centred = not config.encoder_causal_conv
                layer.attention = _mixed_block(config, n, centred=centred)
        for n, layer in enumerate(self.layers):
            if config.convolution:
                layer.self_attention = _mixed_block(config, n)
        sizes = {"pos": config.pos_tags, "ner": config.ner_tags}
        self.heads = nn.ModuleDict(
            {kind: xavier_linear(config.width, size) for kind, size in sizes.items() if size}
        )

    def encode(self, source: Tensor, source_mask: Tensor) -> TaggedMemory:
        """Encode the source, [B, S] -> memory of [B, S, E]."""
        bias = padding_bias(source_mask)
        outputs = [self.source_embedding(source)]
        for layer in self.encoder.layers:
            outputs.append(layer(outputs[-1], bias))
        states = outputs[-1] if self.encoder.norm is None else self.encoder.norm(outputs[-1])
        tagged = {kind: outputs[TAGGED_LAYERS[kind] + 1] for kind in self.heads}
        return TaggedMemory(states, source_mask, tagged)

    def begin(self, memory: Memory, beam: int) -> TransformerState:
        """Compute each layer's keys and values of the source, once per sentence."""
        state = super().begin(memory, beam)
        if self.config.convolution:
            count = len(self.layers)
            caches = [MixedCache(0 if n else count) for n in range(count)]
            state.cache = BeamCache(state.cache.mask, [*caches])
        return state

    def tag(self, memory: Memory) -> dict[str, Tensor]:
        """Return the logits of the tags of source tokens, [B, S, tags] by kind of tag."""
        if not isinstance(memory, TaggedMemory):
            return {}
        return {kind: head(memory.tagged[kind]) for kind, head in self.heads.items()}

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of tags of each kind."""
        return {kind: head.out_features for kind, head in self.heads.items()}  # type: ignore[misc]

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """The weights of the tagging losses, by kind; the loss of translation weighs 1."""
        weights = {"pos": self.config.pos_weight, "ner": self.config.ner_weight}
        return {kind: weights[kind] for kind in self.heads if weights[kind]}


def _mixed_block(
    config: TransformerPlusPlusConfig, layer: int, *, centred: bool = False
) -> MixedAttention:
    kernel, dilation = config.convolution_of(layer)
    local = LocalConvolution(
        config.width // 2, kernel, dilation, SharedDropout(config.kernel_dropout), centred=centred
    )
    dropout = SharedDropout(config.attention_dropout)
    return MixedAttention(config.width, config.heads, dropout, local)
