"""A Transformer as a model of CTranslate2, a fast translation engine in C++.

The weights are the same numbers in another order, so that log-probabilities agree up to rounding.
Where the programs differ, the export has:

- tokens: the names in the vocabulary, made unique; ``</s>`` ends the source, where CTranslate2
  adds it, and starts the target;
- positions: explicit tables, whatever their layout, offset, base and scale in jtrans;
- attention for word alignments: the mean over the heads of the layer that jtrans uses by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from jtrans.decoding.engines.ctranslate2_options import PROGRAM
from jtrans.decoding.engines.token_names import token_names
from jtrans.decoding.translator import load_model
from jtrans.errors import ConfigError
from jtrans.exchange.export_card import ctranslate2_card
from jtrans.exports import Export, import_extra, new_export
from jtrans.files import write_text
from jtrans.models.transformer import Transformer
from jtrans.models.zoo import system_configs
from jtrans.nn.attention import CrossAttention, MultiHeadAttention
from jtrans.nn.embedding import InputEmbedding
from jtrans.nn.feed_forward import FeedForward
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import EOS, SPARE, SPECIALS, UNK

POSITIONS = 4096  # rows of the position tables: the longest sentence
ALL_HEADS = 0  # CTranslate2's code for the mean over heads


def export_to_ctranslate2(
    run: Run, folder: Path, *, checkpoint: str = "best", quantization: str | None = None
) -> Export:
    """Export a run's Transformer, and return the export.

    Args:
        run: a run of the system ``transformer``.
        folder: the folder to write; an earlier export there is replaced.
        checkpoint: the checkpoint of the run.
        quantization: the type of the weights, one of `QUANTIZATIONS`; None for float32.

    Raises:
        ConfigError: the run is of another system, or CTranslate2 is not installed.
        CheckpointError: the checkpoint cannot be used, or `folder` holds something else.
    """
    import_extra("ctranslate2", PROGRAM)
    check_system(run)
    model = cast(Transformer, load_model(run, checkpoint, torch.device("cpu")))
    spec = transformer_spec(model, run.pipeline)
    spec.validate()
    spec.optimize(quantization=quantization)
    with new_export(folder, PROGRAM, run, checkpoint, system_configs()) as (temporary, facts):
        spec.save(str(temporary))
        facts |= {
            "system": model.config.system,
            "weights": quantization or "float32",
            "longest": POSITIONS,
            "alignment_layer": f"decoder.{alignment_layer(model)}.cross",
        }
        write_text(temporary / "README.md", ctranslate2_card(run, facts))
    return Export.open(folder, PROGRAM)


def check_system(run: Run) -> None:
    """Refuse a run of a system that CTranslate2 cannot compute.

    Raises:
        ConfigError: it is not a plain Transformer.
    """
    system = run.config(system_configs()).model.system
    if system != Transformer.Config.model_fields["system"].default:
        raise ConfigError(
            f"CTranslate2 cannot compute {system}: it has only the layers of the plain Transformer "
            "(system transformer, pre-norm or post-norm)",
            where=str(run.folder),
            hint=f"jtrans export {run.folder} --to onnx, unless it has recurrent layers; or "
            "export a run of transformer",
            kind="export.system",
        )


def alignment_layer(model: Transformer) -> int:
    """Return the number of the decoder layer that word alignments are read from."""
    return max(0, len(model.layers) - 2)


def transformer_spec(model: Transformer, pipeline: TextPipeline) -> Any:
    """Return CTranslate2's specification of a Transformer with the weights of `model`."""
    specs = import_extra("ctranslate2.specs", PROGRAM)
    config = model.config
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=specs.Activation.RELU,
        alignment_layer=alignment_layer(model),
        alignment_heads=ALL_HEADS,
    )
    spec.config.unk_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[EOS]
    spec.config.bos_token, spec.config.decoder_start_token = SPECIALS[SPARE], SPECIALS[EOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.register_source_vocabulary(token_names(pipeline.source.vocabulary))
    spec.register_target_vocabulary(token_names(pipeline.target.vocabulary))
    _set_encoder(spec.encoder, model)
    _set_decoder(spec.decoder, model)
    return spec


def _set_encoder(spec: Any, model: Transformer) -> None:
    _set_embedding(spec.embeddings[0], spec, model.source_embedding)
    if model.encoder.norm is not None:
        _set_norm(spec.layer_norm, model.encoder.norm)
    layers: Iterable[Any] = model.encoder.layers
    for target, layer in zip(spec.layer, layers, strict=True):
        attention, feed_forward = layer.attention_residual, layer.ffn_residual
        _set_self_attention(target.self_attention, layer.attention, attention.norm)
        _set_feed_forward(target.ffn, layer.feed_forward, feed_forward.norm)


def _set_decoder(spec: Any, model: Transformer) -> None:
    _set_embedding(spec.embeddings, spec, model.target_embedding)
    if model.norm is not None:
        _set_norm(spec.layer_norm, model.norm)
    layers: Iterable[Any] = model.layers
    for target, layer in zip(spec.layer, layers, strict=True):
        attention, cross, feed_forward = layer.residuals
        _set_self_attention(target.self_attention, layer.self_attention, attention.norm)
        _set_cross_attention(target.attention, layer.cross_attention, cross.norm)
        _set_feed_forward(target.ffn, layer.feed_forward, feed_forward.norm)
    _set_linear(spec.projection, model.output.weight, model.output.bias)


def _set_embedding(tokens: Any, stack: Any, embedding: InputEmbedding) -> None:
    """Set the token vectors, which CTranslate2 scales by sqrt(E), and the positions."""
    tokens.weight = _array(embedding.tokens.weight)
    stack.scale_embeddings = True
    stack.position_encodings.encodings = _array(embedding.positions(0, POSITIONS))


def _set_self_attention(spec: Any, attention: MultiHeadAttention, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    _set_linear(spec.linear[0], attention.in_weight, attention.in_bias)
    _set_linear(spec.linear[1], attention.out.weight, attention.out.bias)


def _set_cross_attention(spec: Any, attention: CrossAttention, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    parts = attention.query, attention.key_value, attention.out
    for target, linear in zip(spec.linear, parts, strict=True):
        _set_linear(target, linear.weight, linear.bias)


def _set_feed_forward(spec: Any, block: FeedForward, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    _set_linear(spec.linear_0, block.inner.weight, block.inner.bias)
    _set_linear(spec.linear_1, block.outer.weight, block.outer.bias)


def _set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().numpy()
