"""What a checkpoint of the original Reformer code (fairseq 0.6) is: its settings as our config.

Everything comes from the saved arguments and is checked against the names and shapes of the
tensors; the name of the architecture does not matter. Settings that have no counterpart here
are refused by name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jtrans.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

STANDARD_CHAIN = "attn1d:dec+ffn2d:dec+attn1d:enc+ffn2d:enc"
POSITION_OFFSET = 2  # fairseq counts positions from pad id + 1
_REDUCTIONS = {"attn": "attention", "max": "max"}
_NO_COUNTERPART = {
    "encoder_learned_pos": "learned source positions",
    "decoder_learned_pos": "learned target positions",
    "no_token_positional_embeddings": "a model without positions",
    "adaptive_softmax_cutoff": "the adaptive softmax",
}


class Settings:
    """The arguments a checkpoint was trained with.

    Args:
        args: the saved arguments.
        where: the checkpoint, for errors.
    """

    def __init__(self, args: argparse.Namespace, where: str) -> None:
        self.values = vars(args)
        self.where = where

    def refuse(self, message: str) -> CheckpointError:
        """Return the error for a checkpoint that has no counterpart here."""
        return CheckpointError(message, where=self.where, kind="checkpoint.unsupported")

    def contradict(self, message: str) -> CheckpointError:
        """Return the error for arguments and tensors that do not belong together."""
        return CheckpointError(message, where=self.where, kind="checkpoint.shape")

    def flag(self, name: str) -> bool:
        """Return a switch; fairseq's own default for all of them is off."""
        return bool(self._get(name, (bool, int), False))

    def size(self, name: str) -> int:
        """Return a size, which must be there."""
        return int(self._get(name, (int,)))

    def rate(self, name: str, default: float) -> float:
        """Return a dropout rate."""
        return float(self._get(name, (float, int), default))

    def text(self, name: str, default: str) -> str:
        """Return a choice."""
        return str(self._get(name, (str,), default))

    def _get(self, name: str, kinds: tuple[type, ...], default: Any = None) -> Any:
        value = self.values.get(name)
        value = default if value is None else value
        if value is None:
            raise self.contradict(f"the checkpoint's arguments have no {name}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.contradict(f"the checkpoint's argument {name} is {value!r}")
        return value


def model_values(settings: Settings, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the `[model]` section of the configuration.

    Args:
        settings: the saved arguments.
        tensors: the saved tensors by their original names.

    Raises:
        CheckpointError: a setting has no counterpart here, or contradicts the tensors.
    """
    for name, meaning in _NO_COUNTERPART.items():
        if settings.values.get(name) not in (None, False, 0, ""):
            raise settings.refuse(f"the checkpoint uses {meaning} ({name}), which jtrans has not")
    encoder_layers = _count_layers(settings, tensors, "encoder")
    decoder_layers = _count_layers(settings, tensors, "decoder")
    is_joint = any(name.startswith("decoder.layers.0.sublayers.") for name in tensors)
    values = _shared_values(settings, tensors, has_encoder=encoder_layers > 0)
    if not is_joint:
        return {
            "system": "transformer",
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            **values,
        }
    values |= {"layers": decoder_layers, **_joint_values(settings, tensors)}
    if encoder_layers == 0 and "encoder.layer_norm.weight" not in tensors:
        return {"system": "reformer-base", **values}
    return {"system": "reformer-fast", "prenet_layers": encoder_layers, **values}


def _count_layers(settings: Settings, tensors: Mapping[str, Tensor], side: str) -> int:
    pattern = re.compile(rf"{side}\.layers\.(\d+)\.")
    found = {int(match[1]) for name in tensors if (match := pattern.match(name))}
    claimed = settings.size(f"{side}_layers")
    if found != set(range(claimed)):
        raise settings.contradict(
            f"{side}_layers is {claimed}, but the checkpoint has tensors of {len(found)} layers"
        )
    if side == "decoder" and claimed == 0:
        raise settings.refuse("the checkpoint has no decoder layers")
    return claimed


def _shared_values(
    settings: Settings, tensors: Mapping[str, Tensor], *, has_encoder: bool
) -> dict[str, Any]:
    """Return what the three systems have in common."""
    sides = ("encoder", "decoder") if has_encoder else ("decoder",)
    width, source_width = settings.size("decoder_embed_dim"), settings.size("encoder_embed_dim")
    if width != source_width:
        raise settings.refuse(
            f"source and target embeddings have different widths, {source_width} and {width}"
        )
    ffn_widths = {settings.size(f"{side}_ffn_embed_dim") for side in sides}
    heads = {settings.size(f"{side}_attention_heads") for side in sides}
    for name, found in (("feed-forward widths", ffn_widths), ("numbers of heads", heads)):
        if len(found) > 1:
            raise settings.refuse(
                f"encoder and decoder have different {name}: {min(found)} and {max(found)}"
            )
    return {
        "width": width,
        "ffn_width": ffn_widths.pop(),
        "heads": heads.pop(),
        "norm": _norm(settings, tensors, has_encoder=has_encoder),
        "dropout": settings.rate("dropout", 0.1),
        "attention_dropout": settings.rate("attention_dropout", 0.0),
        "relu_dropout": settings.rate("relu_dropout", 0.0),
        "tie": _tie(settings, tensors),
        "position_layout": "t2t",
        "position_offset": POSITION_OFFSET,
    }


def _norm(settings: Settings, tensors: Mapping[str, Tensor], *, has_encoder: bool) -> str:
    is_pre = {side: settings.flag(f"{side}_normalize_before") for side in ("encoder", "decoder")}
    for side, flag in is_pre.items():
        if flag != (f"{side}.layer_norm.weight" in tensors):
            raise settings.contradict(
                f"{side}_normalize_before is {flag}, but the checkpoint has "
                f"{'no' if flag else 'a'} layer norm at the end of its {side}"
            )
    # without layers in it the encoder may do without its norm, which is Reformer-base
    if is_pre["encoder"] != is_pre["decoder"] and (has_encoder or is_pre["encoder"]):
        raise settings.refuse(
            "pre-norm on one side and post-norm on the other: "
            f"encoder_normalize_before is {is_pre['encoder']}, "
            f"decoder_normalize_before is {is_pre['decoder']}"
        )
    return "pre" if is_pre["decoder"] else "post"


def _tie(settings: Settings, tensors: Mapping[str, Tensor]) -> str:
    share_all = settings.flag("share_all_embeddings")
    share_decoder = share_all or settings.flag("share_decoder_input_output_embed")
    if share_decoder == ("decoder.embed_out" in tensors):
        raise settings.contradict(
            f"share_decoder_input_output_embed is {share_decoder}, but the checkpoint has "
            f"{'an' if share_decoder else 'no'} output matrix of its own"
        )
    if not share_all:
        return "decoder" if share_decoder else "none"
    source, target = (tensors.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder"))
    if source is None or target is None or not source.equal(target):
        raise settings.contradict(
            "share_all_embeddings is True, but the embeddings of source and target differ"
        )
    return "all"


def _joint_values(settings: Settings, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what only the joint systems have."""
    chain = settings.text("layer_chain", STANDARD_CHAIN)
    if _operations(chain) != _operations(STANDARD_CHAIN):
        raise settings.refuse(
            f"the layer chain {chain!r} has no counterpart; known is {STANDARD_CHAIN!r}"
        )
    if settings.text("arch", "").startswith("reformer_v1"):
        raise settings.refuse(
            "architectures named reformer_v1... halve the target vectors, which jtrans does not"
        )
    reduction = settings.text("decoder_output_layer", "attn")
    if reduction not in _REDUCTIONS:
        raise settings.refuse(
            f"decoder_output_layer {reduction!r} has no counterpart; "
            f"known are {' and '.join(_REDUCTIONS)}"
        )
    grid = settings.text("decoder_input_layer", "add")
    if grid not in ("add", "cat"):
        raise settings.refuse(f"decoder_input_layer {grid!r} has no counterpart")
    return {
        "grid": "sum" if grid == "add" else "concat",
        "reduction": _REDUCTIONS[reduction],
        "side_vectors": settings.flag("src_tgt_embed"),
    }


def _operations(chain: str) -> list[str]:
    """Return the operations of a chain; for an FFN the side it names means nothing."""
    operations = []
    for part in chain.split("+"):
        name, _, sides = part.partition(":")
        side = "enc" if "enc" in sides.split(",") else "dec"  # the code's default is dec
        operations.append(f"{name}:{side}" if name == "attn1d" else name)
    return operations
