"""Parts that all attention systems build from their configuration.

`tie` chooses the embedding matrices to share: none, the decoder's two, or all three
(docs/systems.md 0.4).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from torch import nn

from jtrans.errors import ConfigError
from jtrans.models.base import AttentionMap
from jtrans.models.systems import AttentionSystemConfig, PervasiveConfig
from jtrans.nn.convolution.mixed import MixedAttention
from jtrans.nn.cpu.linear import Linear
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import InputEmbedding, token_embedding
from jtrans.nn.encoder import Encoder
from jtrans.nn.recorder import AttentionRecorder


def input_embeddings(
    config: AttentionSystemConfig, source_vocabulary: int, target_vocabulary: int
) -> tuple[InputEmbedding, InputEmbedding]:
    """Return the source and the target embedding, see `embedding_tables`."""
    source, target = embedding_tables(config, source_vocabulary, target_vocabulary)
    return input_embedding(config, source), input_embedding(config, target)


def input_embedding(config: AttentionSystemConfig, tokens: nn.Embedding) -> InputEmbedding:
    """Return token vectors with the configured positions and dropout."""
    return InputEmbedding(
        tokens,
        layout=config.position_layout,
        base=config.position_base,
        offset=config.position_offset,
        scale_positions=config.scale_positions,
        dropout=SharedDropout(config.dropout),
    )


def embedding_tables(
    config: AttentionSystemConfig | PervasiveConfig, source_vocabulary: int, target_vocabulary: int
) -> tuple[nn.Embedding, nn.Embedding]:
    """Return the source and the target token vectors, one matrix when `tie` is ``all``.

    Raises:
        ConfigError: one matrix cannot serve two vocabularies.
    """
    if config.tie == "all" and source_vocabulary != target_vocabulary:
        raise ConfigError(
            f"tie = 'all' needs one vocabulary for both sides, "
            f"but the source has {source_vocabulary:,} tokens and the target {target_vocabulary:,}",
            where="model.tie",
            hint="use model.tie = 'decoder', or prepare the corpus with --vocabulary joint",
        )
    target = token_embedding(target_vocabulary, config.width)
    source = target if config.tie == "all" else token_embedding(source_vocabulary, config.width)
    return source, target


def source_encoder(config: AttentionSystemConfig, layers: int) -> Encoder:
    """Return an encoder of the configured sizes."""
    return Encoder(
        layers,
        config.width,
        config.ffn_width,
        config.heads,
        pre_norm=config.norm == "pre",
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        relu_dropout=config.relu_dropout,
    )


def output_projection(
    config: AttentionSystemConfig,
    target_embedding: InputEmbedding,
    width: int,
    vocabulary: int,
    *,
    bias: bool = False,
) -> nn.Linear:
    """Return the map to the vocabulary, the target embedding itself unless `tie` is ``none``."""
    output = Linear(width, vocabulary, bias=bias)
    if bias:
        nn.init.zeros_(output.bias)
    if config.tie == "none":
        nn.init.normal_(output.weight, std=width**-0.5)
    else:
        output.weight = target_embedding.tokens.weight
    return output


def xavier_linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear map drawn Xavier-uniform with a bias of 0."""
    linear = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def encoder_maps(
    layers: Iterable[nn.Module], weights: AttentionRecorder, stack: str = "encoder"
) -> list[AttentionMap]:
    """Return the self-attention of encoder layers as recorded, named after their `stack`."""
    return [
        attention_map
        for n, layer in enumerate(layers)
        for attention_map in self_attention_maps(f"{stack}.{n}", layer.attention, "source", weights)
    ]


def self_attention_maps(
    layer: str, block: Hashable, side: str, weights: AttentionRecorder
) -> list[AttentionMap]:
    """Return the recorded weights of a self-attention, or of both halves of a mixed block.

    The weights of the convolution half, ``query``, are means over the channels of a head.
    """
    axes = ("head", side, side)
    maps = [AttentionMap(f"{layer}.self", axes, weights[block])]
    if isinstance(block, MixedAttention):
        maps.append(AttentionMap(f"{layer}.query", axes, weights[block, "query"]))
    return maps
