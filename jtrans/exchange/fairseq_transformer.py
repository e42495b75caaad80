"""Checkpoints of the Transformers of fairseq 0.7 to 0.12, under the names of fairseq 0.6.

    checkpoint  {"args": Namespace or None, "cfg": {"model": ..., "task": ...}, "model": {...}, ...}

Later versions compute the same function. They have queries, keys and values in three matrices,
other names for some norms and the output, and copies of an encoder layer's weights for a fast path.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from jtrans.errors import CheckpointError
from jtrans.exchange.foreign_tensors import plain_tensors, shown
from jtrans.exchange.reformer_settings import SavedArguments

_COPY = re.compile(r"encoder\.layers\.[0-9]+\.(?:in_proj|out_proj|fc1|fc2)_(?:weight|bias)")
_PART = re.compile(r"(.*_attn)\.([qkv])_proj\.(weight|bias)")
_ENCODER_NORM = re.compile(r"(encoder\.layers\.[0-9]+)\.(self_attn|final)_layer_norm\.(.*)")
_NORM_NUMBERS = {"self_attn": 0, "final": 1}
_OUTPUT, _TARGET_ROWS = "decoder.output_projection.weight", "decoder.embed_tokens.weight"
# arguments that jtrans has no counterpart for if they are set -> what they mean
_NO_COUNTERPART = {
    "no_scale_embedding": "embeddings without a factor",
    "layernorm_embedding": "a layer norm of the embeddings",
    "cross_self_attention": "attention to both sides at once",
    "no_cross_attention": "a decoder without attention to the source",
    "adaptive_input": "adaptive embeddings",
    "char_inputs": "characters as input",
    "base_layers": "layers of experts",
    "no_decoder_final_norm": "a pre-norm decoder without a norm at its end",
    "encoder_layers_to_keep": "pruned layers",
    "decoder_layers_to_keep": "pruned layers",
}


def transformer_parts(
    content: Mapping[str, Any], where: str
) -> tuple[SavedArguments, dict[str, Tensor]]:
    """Return the arguments and the tensors of a checkpoint, named as in fairseq 0.6.

    Args:
        content: the dictionary in the file.
        where: the name of the file, for messages.

    Raises:
        CheckpointError: it is not such a checkpoint, or jtrans has no counterpart of its model.
    """
    model, values = content.get("model"), _arguments(content)
    if values is None or not isinstance(model, Mapping):
        raise CheckpointError(
            "not a fairseq checkpoint: it has no arguments (args or cfg.model) and weights (model)",
            where=where,
            hint="name the file that fairseq-train saved, such as checkpoint_best.pt",
            kind="checkpoint.format",
        )
    arguments = SavedArguments(values, where)
    if arguments.is_set("activation_dropout"):
        arguments.values["relu_dropout"] = arguments.values["activation_dropout"]
    arguments.refuse_if_set(_NO_COUNTERPART)
    if (activation := arguments.text("activation_fn", "relu")) != "relu":
        raise arguments.refuse(
            f"the checkpoint's FFNs have the activation {shown(activation)}; jtrans has relu"
        )
    return arguments, dict(_renamed(arguments, plain_tensors(model, where)))


def _arguments(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return all arguments in one dictionary, None if there are none."""
    args, cfg = content.get("args"), content.get("cfg")
    if isinstance(args, argparse.Namespace):
        return dict(_flat(vars(args)))
    if not isinstance(cfg, Mapping):
        return None
    values: dict[str, Any] = {}
    for part in (cfg.get("task"), cfg.get("model")):
        entries = vars(part) if isinstance(part, argparse.Namespace) else part
        if isinstance(entries, Mapping):
            # the task may have a language, read from the data, where the model has None
            values |= {k: v for k, v in _flat(entries) if v is not None or k not in values}
    return values


def _flat(entries: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings; those in a nested `encoder` become ``encoder_layers`` and the like."""
    for name, value in entries.items():
        if name in ("encoder", "decoder") and isinstance(value, Mapping):
            yield from ((f"{name}_{inner}", setting) for inner, setting in value.items())
        else:
            yield str(name), value


def _renamed(
    arguments: SavedArguments, tensors: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors by their names in fairseq 0.6."""
    parts: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if match := _PART.fullmatch(name):
            parts.setdefault((match[1], match[3]), {})[match[2]] = tensor
        elif match := _ENCODER_NORM.fullmatch(name):
            yield f"{match[1]}.layer_norms.{_NORM_NUMBERS[match[2]]}.{match[3]}", tensor
        elif name == _OUTPUT:
            if not _is_tied(arguments):
                yield "decoder.embed_out", tensor
            elif not _is_same(tensor, tensors.get(_TARGET_ROWS, tensor)):
                raise arguments.contradict(f"{_OUTPUT} and {_TARGET_ROWS} are one, but differ")
        elif not _COPY.fullmatch(name):
            yield name, tensor
    for (block, kind), three in parts.items():
        if len(three) != len("qkv"):
            raise arguments.contradict(f"the checkpoint has only part of {shown(block)[1:-1]}")
        shapes = {(tensor.shape, tensor.dtype) for tensor in three.values()}
        if len(shapes) > 1 or not next(iter(three.values())).dim():
            raise arguments.refuse(
                f"queries, keys and values of {shown(block)[1:-1]} have different shapes or types"
            )
        yield f"{block}.in_proj_{kind}", torch.cat([three[letter] for letter in "qkv"])


def _is_same(tensor: Tensor, other: Tensor) -> bool:
    is_alike = (tensor.shape, tensor.dtype) == (other.shape, other.dtype)
    return is_alike and torch.equal(tensor, other)


def _is_tied(arguments: SavedArguments) -> bool:
    names = ("share_all_embeddings", "share_decoder_input_output_embed")
    return any(arguments.flag(name) for name in names)
