"""The `[model]` section for a checkpoint of the original Reformer code (fairseq 0.6).

It follows from the saved arguments, and is checked against the names and shapes of the tensors.
The name of the architecture does not matter, except for reformer_v1. Arguments without a
counterpart here are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from jtrans.errors import CheckpointError
from jtrans.exchange.foreign_tensors import shown

STANDARD_CHAIN = "attn1d:dec+ffn2d:dec+attn1d:enc+ffn2d:enc"
MOST = 2**31 - 1  # the largest accepted size
MOST_LETTERS = 200  # length of the longest accepted name or choice
POSITION_OFFSET = 2  # fairseq counts positions from pad id + 1
_REDUCTIONS = {"attn": "attention", "max": "max"}
_NO_COUNTERPART = {
    "encoder_learned_pos": "learned source positions",
    "decoder_learned_pos": "learned target positions",
    "no_token_positional_embeddings": "a model without positions",
    "adaptive_softmax_cutoff": "the adaptive softmax",
}


class SavedArguments:
    """The arguments that a checkpoint was trained with; errors name the file `where`."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def refuse(self, message: str) -> CheckpointError:
        """Return the error for an argument without a counterpart here."""
        return CheckpointError(message, where=self.where, kind="checkpoint.unsupported")

    def contradict(self, message: str) -> CheckpointError:
        """Return the error for arguments and tensors that contradict each other."""
        return CheckpointError(message, where=self.where, kind="checkpoint.shape")

    def refuse_if_set(self, meanings: Mapping[str, str]) -> None:
        """Refuse arguments without a counterpart here; `meanings` says what each one means.

        Raises:
            CheckpointError: one of them is set.
        """
        for name, meaning in meanings.items():
            if self.is_set(name):
                raise self.refuse(
                    f"the checkpoint uses {meaning} ({name}), which jtrans does not have"
                )

    def is_set(self, name: str) -> bool:
        """Return whether an argument is neither missing nor off; odd types count as set."""
        value = self.values.get(name)
        is_plain = isinstance(value, bool | int | float | str | list)
        return bool(value) if is_plain else value is not None

    def flag(self, name: str) -> bool:
        """Return a flag; fairseq's default is off for all of them."""
        return bool(self._get(name, (bool, int), False))

    def size(self, name: str) -> int:
        """Return a size; it must be present."""
        return int(self._get(name, (int,), None, lambda value: 0 <= value <= MOST))

    def rate(self, name: str, default: float) -> float:
        """Return a dropout rate."""
        return float(self._get(name, (float, int), default, lambda value: 0 <= value <= 1))

    def text(self, name: str, default: str) -> str:
        """Return a name or choice."""
        return str(
            self._get(name, (str,), default, lambda v: len(v) <= MOST_LETTERS and v.isprintable())
        )

    def _lacking(self, name: str) -> CheckpointError:
        """Return the error for a missing argument: the architecture may not have it."""
        error = self.contradict(f"the checkpoint's arguments have no {name}")
        architecture = self.values.get("arch") or self.values.get("_name")
        if isinstance(architecture, str):
            error.hint = (
                f"its architecture is {shown(architecture)}; jtrans reads Transformers of fairseq "
                "and Reformers of the original code"
            )
        return error

    def _get(
        self,
        name: str,
        kinds: tuple[type, ...],
        default: Any,
        is_valid: Callable[[Any], bool] = lambda value: True,
    ) -> Any:
        value = self.values.get(name)
        value = default if value is None else value
        if value is None:
            raise self._lacking(name)
        is_bool = isinstance(value, bool) and bool not in kinds
        if not isinstance(value, kinds) or is_bool or not is_valid(value):
            raise self.contradict(f"the checkpoint's argument {name} cannot be {shown(value)}")
        return value


def model_values(arguments: SavedArguments, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the `[model]` section for saved arguments and tensors by their original names.

    Raises:
        CheckpointError: an argument has no counterpart here, or contradicts the tensors.
    """
    arguments.refuse_if_set(_NO_COUNTERPART)
    encoder_layers = _count_layers(arguments, tensors, "encoder")
    decoder_layers = _count_layers(arguments, tensors, "decoder")
    is_joint = any(name.startswith("decoder.layers.0.sublayers.") for name in tensors)
    values = _shared_values(arguments, tensors, has_encoder=encoder_layers > 0)
    if not is_joint:
        return {
            "system": "transformer",
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            **values,
        }
    values |= {"layers": decoder_layers, **_joint_values(arguments)}
    if encoder_layers == 0 and "encoder.layer_norm.weight" not in tensors:
        return {"system": "reformer-base", **values}
    return {"system": "reformer-fast", "prenet_layers": encoder_layers, **values}


def _count_layers(arguments: SavedArguments, tensors: Mapping[str, Tensor], side: str) -> int:
    pattern = re.compile(rf"{side}\.layers\.([0-9]{{1,9}})\.")
    layers = {int(match[1]) for name in tensors if (match := pattern.match(name))}
    claimed = arguments.size(f"{side}_layers")
    if len(layers) != claimed or max(layers, default=-1) != claimed - 1:
        raise arguments.contradict(
            f"{side}_layers is {claimed}, but the checkpoint has tensors of {len(layers)} layers"
        )
    if side == "decoder" and claimed == 0:
        raise arguments.refuse("the checkpoint has no decoder layers")
    return claimed


def _shared_values(
    arguments: SavedArguments, tensors: Mapping[str, Tensor], *, has_encoder: bool
) -> dict[str, Any]:
    """Return the settings that the three systems share."""
    sides = ("encoder", "decoder") if has_encoder else ("decoder",)
    width, source_width = arguments.size("decoder_embed_dim"), arguments.size("encoder_embed_dim")
    if width != source_width:
        raise arguments.refuse(
            f"source and target embeddings have different widths, {source_width} and {width}"
        )
    ffn_widths = {arguments.size(f"{side}_ffn_embed_dim") for side in sides}
    heads = {arguments.size(f"{side}_attention_heads") for side in sides}
    for name, values in (("feed-forward widths", ffn_widths), ("numbers of heads", heads)):
        if len(values) > 1:
            raise arguments.refuse(
                f"encoder and decoder have different {name}: {min(values)} and {max(values)}"
            )
    ffn_width = ffn_widths.pop()
    _check_widths(arguments, tensors, width, ffn_width)
    return {
        "width": width,
        "ffn_width": ffn_width,
        "heads": heads.pop(),
        "norm": _norm(arguments, tensors, has_encoder=has_encoder),
        "dropout": arguments.rate("dropout", 0.1),
        "attention_dropout": arguments.rate("attention_dropout", 0.0),
        "relu_dropout": arguments.rate("relu_dropout", 0.0),
        "tie": _tie(arguments, tensors),
        "position_layout": "t2t",
        "position_offset": POSITION_OFFSET,
    }


def _check_widths(
    arguments: SavedArguments, tensors: Mapping[str, Tensor], width: int, ffn_width: int
) -> None:
    """Compare the sizes in the arguments with tensors, before memory of such sizes is allocated."""
    for name, tensor in tensors.items():
        rows = len(tensor) if tensor.dim() else 0
        if name.endswith(".embed_tokens.weight"):
            check_shape(arguments, name, tensor, [rows, width])
        elif name.endswith(".fc1.weight"):
            columns = tensor.shape[1] if tensor.dim() == 2 else width
            check_shape(arguments, name, tensor, [ffn_width, columns])


def check_shape(arguments: SavedArguments, name: str, tensor: Tensor, expected: list[int]) -> None:
    """Check the shape of a tensor.

    Raises:
        CheckpointError: it is not the one expected from the arguments.
    """
    if list(tensor.shape) != expected:
        raise arguments.contradict(
            f"{shown(name)[1:-1]} has the shape {shown(list(tensor.shape))}, but the arguments "
            f"imply {expected}"
        )


def _norm(arguments: SavedArguments, tensors: Mapping[str, Tensor], *, has_encoder: bool) -> str:
    is_pre = {side: arguments.flag(f"{side}_normalize_before") for side in ("encoder", "decoder")}
    for side, flag in is_pre.items():
        if flag != (f"{side}.layer_norm.weight" in tensors):
            raise arguments.contradict(
                f"{side}_normalize_before is {flag}, but the checkpoint has "
                f"{'no' if flag else 'a'} layer norm at the end of its {side}"
            )
    # Reformer-base: an encoder without layers need not have a norm, either
    if is_pre["encoder"] != is_pre["decoder"] and (has_encoder or is_pre["encoder"]):
        raise arguments.refuse(
            "pre-norm on one side and post-norm on the other: "
            f"encoder_normalize_before is {is_pre['encoder']}, "
            f"decoder_normalize_before is {is_pre['decoder']}"
        )
    return "pre" if is_pre["decoder"] else "post"


def _tie(arguments: SavedArguments, tensors: Mapping[str, Tensor]) -> str:
    share_all = arguments.flag("share_all_embeddings")
    share_decoder = share_all or arguments.flag("share_decoder_input_output_embed")
    if share_decoder == ("decoder.embed_out" in tensors):
        raise arguments.contradict(
            f"share_decoder_input_output_embed is {share_decoder}, but the checkpoint has "
            f"{'an' if share_decoder else 'no'} output matrix of its own"
        )
    if not share_all:
        return "decoder" if share_decoder else "none"
    source, target = (tensors.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder"))
    if source is None or target is None or not source.equal(target):
        raise arguments.contradict(
            "share_all_embeddings is True, but the embeddings of source and target differ"
        )
    return "all"


def _joint_values(arguments: SavedArguments) -> dict[str, Any]:
    """Return the settings that only the joint systems have."""
    chain = arguments.text("layer_chain", STANDARD_CHAIN)
    if _operations(chain) != _operations(STANDARD_CHAIN):
        raise arguments.refuse(
            f"the layer chain {chain!r} has no counterpart; only {STANDARD_CHAIN!r} is supported"
        )
    if arguments.text("arch", "").startswith("reformer_v1"):
        raise arguments.refuse(
            "architectures named reformer_v1... halve the target vectors, which jtrans never does"
        )
    reduction = arguments.text("decoder_output_layer", "attn")
    if reduction not in _REDUCTIONS:
        raise arguments.refuse(
            f"decoder_output_layer {reduction!r} has no counterpart; "
            f"supported are {' and '.join(_REDUCTIONS)}"
        )
    grid = arguments.text("decoder_input_layer", "add")
    if grid not in ("add", "cat"):
        raise arguments.refuse(f"decoder_input_layer {grid!r} has no counterpart")
    return {
        "grid": "sum" if grid == "add" else "concat",
        "reduction": _REDUCTIONS[reduction],
        "side_vectors": arguments.flag("src_tgt_embed"),
    }


def _operations(chain: str) -> list[str]:
    """Return the operations of a layer chain; the side of a feed-forward layer has no effect."""
    operations = []
    for part in chain.split("+"):
        name, _, sides = part.partition(":")
        side = "enc" if "enc" in sides.split(",") else "dec"  # the code's default is dec
        operations.append(f"{name}:{side}" if name == "attn1d" else name)
    return operations
