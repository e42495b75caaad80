"""Checkpoints of the original Reformer code (a fork of fairseq 0.6) and of fairseq, as runs.

    checkpoint  {"args": Namespace, "model": {name: tensor}, ...}   by torch.save
    dictionaries, one per side                                      text
      -> configuration, vocabularies, weights under our names, rows in our order of ids
      -> a run that translates and scores like any other

The models compute the same functions. Only the names, the order of four special tokens and the
first position (2 instead of 0, set by `position_offset`) differ. Tensors of later versions of
fairseq are renamed first (`fairseq_transformer.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from jtrans.config import Config, build_config
from jtrans.errors import CheckpointError
from jtrans.exchange.fairseq_dictionary import read_dictionary, reorder_rows
from jtrans.exchange.fairseq_transformer import transformer_parts
from jtrans.exchange.foreign_tensors import as_float32, plain_tensors
from jtrans.exchange.reformer_settings import SavedArguments, check_shape, model_values
from jtrans.exchange.torch_file import load_torch_file
from jtrans.files import whole_folder
from jtrans.models.systems import AttentionSystemConfig, ReformerConfig, TransformerConfig
from jtrans.models.zoo import build_model, system_configs
from jtrans.runs import WEIGHTS, Run
from jtrans.text.bpe import read_codes
from jtrans.text.language import language_of_file
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import Vocabulary

_ATTENTION = {
    "in_weight": "in_proj_weight",
    "in_bias": "in_proj_bias",
    "out.weight": "out_proj.weight",
    "out.bias": "out_proj.bias",
}
# Our cross-attention has separate queries: see `_split_cross_attention`.
_CROSS_ATTENTION = {
    "query.weight": "in_proj_weight[queries]",
    "query.bias": "in_proj_bias[queries]",
    "key_value.weight": "in_proj_weight[keys, values]",
    "key_value.bias": "in_proj_bias[keys, values]",
    "out.weight": "out_proj.weight",
    "out.bias": "out_proj.bias",
}
_FEED_FORWARD = {
    "inner.weight": "fc1.weight",
    "inner.bias": "fc1.bias",
    "outer.weight": "fc2.weight",
    "outer.bias": "fc2.bias",
}
_NORM = {"weight": "weight", "bias": "bias"}
_SOURCE_ROWS = "encoder.embed_tokens.weight"
_TARGET_ROWS = "decoder.embed_tokens.weight"
_OUTPUT_ROWS = "decoder.embed_out"
MOST_UPDATES = 10**9


def import_checkpoint(
    checkpoint: Path,
    *,
    program: str = "reformer-fairseq",
    source_dict: Path,
    target_dict: Path,
    run_folder: Path,
    bpe_codes: Path | None = None,
) -> Run:
    """Turn a checkpoint of fairseq or of the original code into a run, and return it.

    Args:
        checkpoint: the file, such as checkpoint_best.pt.
        program: the program that wrote it, a name in `PROGRAMS`.
        source_dict: dictionary of the source side, such as dict.de.txt.
        target_dict: dictionary of the target side.
        run_folder: the folder of the new run, which must not exist yet.
        bpe_codes: BPE codes of both sides; None if input and output are subwords.

    Raises:
        CheckpointError: the file cannot be read safely, does not fit its dictionaries, or uses
            something that jtrans does not have. Nothing is written in that case.
    """
    if run_folder.exists():
        raise CheckpointError(
            f"{run_folder} already exists",
            hint="choose another --run, or delete it",
            kind="run.exists",
        )
    content = load_torch_file(checkpoint)
    arguments, tensors = PROGRAMS[program](content, str(checkpoint))
    vocabularies = read_dictionary(source_dict), read_dictionary(target_dict)
    pipeline = TextPipeline.whitespace(
        arguments.text("source_lang", language_of_file(source_dict) or "source"),
        arguments.text("target_lang", language_of_file(target_dict) or "target"),
        *vocabularies,
        codes=None if bpe_codes is None else read_codes(bpe_codes),
    )
    config = build_config(
        {"model": model_values(arguments, tensors)}, system_configs(), where=str(checkpoint)
    )
    _check_dictionaries(arguments, tensors, vocabularies, (source_dict, target_dict))
    sizes = pipeline.vocabulary_sizes
    state = _match(config, sizes, arguments, tensors)
    model = build_model(config.model, *sizes)
    model.load_state_dict(state)
    info = {
        "imported": {
            "from": program,
            "file": checkpoint.name,
            "arch": arguments.text("arch", "unknown"),
        },
        "pipeline": pipeline.fingerprint(),
        "parameters": model.parameter_count(),
    }
    with whole_folder(run_folder) as temporary:
        run = Run.create(temporary, config, pipeline, info)
        with run.new_checkpoint(_updates(content)) as folder:
            safetensors.torch.save_model(model, str(folder / WEIGHTS))
        name = run.checkpoints()[-1].name
        run.set_pointers(last=name, best=name)
    return Run(run_folder)


def _parts(content: Mapping[str, Any], where: str) -> tuple[SavedArguments, dict[str, Tensor]]:
    """Return the arguments and the tensors in the dictionary of a checkpoint."""
    args, model = content.get("args"), content.get("model")
    if not isinstance(args, argparse.Namespace) or not isinstance(model, Mapping):
        raise CheckpointError(
            "not a checkpoint of fairseq 0.6: it has no arguments (args) and weights (model)",
            where=where,
            hint="later versions of fairseq: --from fairseq" if "cfg" in content else None,
            kind="checkpoint.format",
        )
    return SavedArguments(vars(args), where), plain_tensors(model, where)


# program that wrote a checkpoint -> function that reads its arguments and tensors
PROGRAMS = {"reformer-fairseq": _parts, "fairseq": transformer_parts}


def _check_dictionaries(
    arguments: SavedArguments,
    tensors: Mapping[str, Tensor],
    vocabularies: tuple[Vocabulary, Vocabulary],
    files: tuple[Path, Path],
) -> None:
    for name, vocabulary, file in zip(
        (_SOURCE_ROWS, _TARGET_ROWS), vocabularies, files, strict=True
    ):
        rows = len(tensors[name]) if name in tensors and tensors[name].dim() else 0
        if name in tensors and rows != len(vocabulary):
            raise CheckpointError(
                f"the dictionary has {len(vocabulary):,} tokens, 4 implicit ones included, "
                f"but {name} of the checkpoint has {rows:,} rows",
                where=str(file),
                hint="give the dictionaries the checkpoint was trained with; "
                "are source and target swapped?",
                kind="checkpoint.dictionary",
            )
    if arguments.flag("share_all_embeddings") and vocabularies[0].tokens != vocabularies[1].tokens:
        raise CheckpointError(
            "the checkpoint has one embedding for both sides, but the dictionaries differ",
            where=str(files[1]),
            kind="checkpoint.dictionary",
        )


def _match(
    config: Config, sizes: tuple[int, int], arguments: SavedArguments, tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the model's tensors by our names and with our order of ids; all must match.

    Names are compared first, then shapes, with a model on the meta device, and values last: a
    hostile checkpoint is refused before memory is allocated for it.
    """
    tensors = dict(_split_cross_attention(tensors))
    names = dict(_names(config.model))
    unknown = sorted(tensors.keys() - set(names.values()))
    if unknown:
        raise arguments.refuse(
            f"{len(unknown):,} tensors of the checkpoint have no counterpart, such as "
            f"{unknown[0][:80]}"
        )
    for theirs in names.values():  # before the model is built: layers may be claimed but missing
        if ".layers." in theirs and theirs not in tensors:
            raise arguments.contradict(f"the checkpoint has no {theirs}")
    with torch.device("meta"):
        shapes = {
            name: tensor.shape
            for name, tensor in build_model(config.model, *sizes).state_dict().items()
        }
    for name, shape in shapes.items():
        if names[name] not in tensors:
            raise arguments.contradict(f"the checkpoint has no {names[name]}")
        check_shape(arguments, names[name], tensors[names[name]], list(shape))
    state = {}
    for name in shapes:
        tensor = as_float32(names[name], tensors[names[name]], arguments.where)
        is_rows = names[name] in (_SOURCE_ROWS, _TARGET_ROWS, _OUTPUT_ROWS)
        state[name] = reorder_rows(tensor) if is_rows else tensor
    return state


def _split_cross_attention(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in tensors.items():
        if ".encoder_attn.in_proj_" not in name or not tensor.dim():
            yield name, tensor
            continue
        width = len(tensor) // 3  # queries, keys, values
        yield f"{name}[queries]", tensor[:width]
        yield f"{name}[keys, values]", tensor[width:]


def _names(config: Any) -> Iterator[tuple[str, str]]:
    """Yield our name of every tensor, and its name in the checkpoint."""
    yield "source_embedding.tokens.weight", _SOURCE_ROWS
    yield "target_embedding.tokens.weight", _TARGET_ROWS
    yield "output.weight", _OUTPUT_ROWS if config.tie == "none" else _TARGET_ROWS
    if isinstance(config, TransformerConfig):
        yield from _transformer_names(config)
    else:
        yield from _joint_names(config)


def _transformer_names(config: TransformerConfig) -> Iterator[tuple[str, str]]:
    yield from _encoder_names("encoder", config.encoder_layers, config)
    for n in range(config.decoder_layers):
        ours, theirs = f"layers.{n}", f"decoder.layers.{n}"
        yield from _block(f"{ours}.self_attention", f"{theirs}.self_attn", _ATTENTION)
        yield from _block(f"{ours}.cross_attention", f"{theirs}.encoder_attn", _CROSS_ATTENTION)
        yield from _block(f"{ours}.feed_forward", theirs, _FEED_FORWARD)
        for k, norm in enumerate(("self_attn", "encoder_attn", "final")):
            yield from _block(f"{ours}.residuals.{k}.norm", f"{theirs}.{norm}_layer_norm", _NORM)
    if config.norm == "pre":
        yield from _block("norm", "decoder.layer_norm", _NORM)


def _joint_names(config: ReformerConfig) -> Iterator[tuple[str, str]]:
    yield from _encoder_names("prenet", getattr(config, "prenet_layers", 0), config)
    if config.side_vectors:
        yield "source_embedding.side", "encoder.src_embed"
        yield "target_embedding.side", "decoder.tgt_embed"
    for n in range(config.layers):
        ours, theirs = f"layers.{n}", f"decoder.layers.{n}.sublayers"
        for k, axis in ((0, "target"), (2, "source")):
            attention, ffn = f"{ours}.{axis}_attention.attention", f"{ours}.{axis}_ffn"
            yield from _block(attention, f"{theirs}.{k}.self_attn", _ATTENTION)
            yield from _block(ffn, f"{theirs}.{k + 1}", _FEED_FORWARD)
        for k in range(4):
            yield from _block(f"{ours}.residuals.{k}.norm", f"{theirs}.{k}.layer_norm", _NORM)
    reduction = "decoder.output_layer.reduction"
    if config.reduction == "attention":
        yield "reduction.weight", f"{reduction}.weights"
    if config.norm == "pre":
        yield from _block("grid_norm", f"{reduction}.layer_norm", _NORM)
        yield from _block("output_norm", "decoder.layer_norm", _NORM)
    else:
        yield from _block("output_norm", f"{reduction}.layer_norm", _NORM)


def _encoder_names(
    ours: str, layers: int, config: AttentionSystemConfig
) -> Iterator[tuple[str, str]]:
    for n in range(layers):
        layer, theirs = f"{ours}.layers.{n}", f"encoder.layers.{n}"
        yield from _block(f"{layer}.attention", f"{theirs}.self_attn", _ATTENTION)
        yield from _block(f"{layer}.feed_forward", theirs, _FEED_FORWARD)
        yield from _block(f"{layer}.attention_residual.norm", f"{theirs}.layer_norms.0", _NORM)
        yield from _block(f"{layer}.ffn_residual.norm", f"{theirs}.layer_norms.1", _NORM)
    if config.norm == "pre":
        yield from _block(f"{ours}.norm", "encoder.layer_norm", _NORM)


def _block(ours: str, theirs: str, parts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for our_part, their in parts.items():
        yield f"{ours}.{our_part}", f"{theirs}.{their}"


def _updates(content: Mapping[str, Any]) -> int:
    """Return the number of updates the original had done; 0 if unknown."""
    history = content.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    updates = last.get("num_updates") if isinstance(last, Mapping) else None
    return updates if isinstance(updates, int) and 0 <= updates < MOST_UPDATES else 0
