"""Where a system looks: all its attention weights for one sentence pair.

Position j of the target reads token j-1 (at first a start mark) and predicts token j. So what
looks is called by the predicted token, and what is looked at by the token that was read there.

A joint system has one attention per line of its grid: source attention [T, S, S] for every target
position, target attention [S, T, T] for every source position. `attention_views` cuts them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, UNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.models.base import AttentionMap, TranslationModel
    from jtrans.text.pipeline import TextPipeline

    Weights = NDArray[np.float32]

START, END = "<s>", "</s>"
# Weights kept for one pair, as floats half a gigabyte: a joint system of 7 layers and 4 heads
# reaches it at 130 x 130 tokens.
MOST_WEIGHTS = 128_000_000


@dataclass(frozen=True)
class LayerMap:
    """The weights of one attention.

    Args:
        kind: its name without the layer, such as ``joint.source``.
        layer: counted from 1; None where a system has just one.
        parts: ``head``, or ``feature`` for the Reduction: what the first axis of `weights` is.
        axes: the other axes, out of ``source`` and ``target``; the last one is attended over.
        weights: [parts, *axes].
    """

    kind: str
    layer: int | None
    parts: str
    axes: tuple[str, ...]
    weights: Weights

    @property
    def name(self) -> str:
        """The name the model gives it, such as ``joint.2.source``."""
        if self.layer is None:
            return self.kind
        stack, _, what = self.kind.partition(".")
        return f"{stack}.{self.layer - 1}.{what}"

    @property
    def heads(self) -> int:
        """How many heads there are; 0 where there are features instead."""
        return self.weights.shape[0] if self.parts == "head" else 0

    def mean(self) -> Weights:
        """Return the weights averaged over heads or features."""
        mean: Weights = self.weights.mean(axis=0, dtype=np.float32)
        return mean


@dataclass(frozen=True)
class Explanation:
    """Every attention map of one system for one sentence pair.

    Args:
        source: pieces, the end mark last, S of them.
        predicted: target pieces, the end mark last, T of them.
        maps: in the order of the network.
        is_joint: whether the system has a grid of source and target positions.
    """

    source: list[str]
    predicted: list[str]
    maps: list[LayerMap]
    is_joint: bool

    @property
    def read(self) -> list[str]:
        """What each target position reads: the piece before it."""
        return [START, *self.predicted[:-1]]

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention, in the order of the network."""
        return list(dict.fromkeys(found.kind for found in self.maps))

    @property
    def deepest(self) -> int:
        """The number of the last layer of the deepest stack."""
        return max((found.layer or 1 for found in self.maps), default=0)

    def layers(self, kind: str) -> list[LayerMap]:
        """Return the maps of one kind, first layer first."""
        return [found for found in self.maps if found.kind == kind]

    def strongest_cell(self) -> tuple[int, int]:
        """Return (target, source) of the pieces that belong together most, end marks left out."""
        between = [found for found in self.maps if found.axes == ("target", "source")]
        if not between:
            return 0, 0
        weights = between[-1].mean()
        inner = weights[: max(1, weights.shape[0] - 1), : max(1, weights.shape[1] - 1)]
        row, column = np.unravel_index(int(inner.argmax()), inner.shape)
        return int(row), int(column)


def explain(
    model: TranslationModel, pipeline: TextPipeline, source: str, predicted: Sequence[str]
) -> Explanation:
    """Run a system over one pair and keep where it looked.

    Args:
        model: in evaluation mode.
        pipeline: of its run.
        source: raw text.
        predicted: target pieces without end mark, given or the system's own.

    Raises:
        DecodingError: nothing to look at, or a pair too long to keep all weights of.
    """
    import torch

    pieces = pipeline.source.pieces(source)
    if not pieces:
        raise DecodingError(
            "the source sentence is empty: there is nothing to look at",
            hint='give some text: --sentence "..."',
            kind="analysis.empty-sentence",
        )
    source_ids = pipeline.source.encode_pieces(pieces)
    target_ids = pipeline.target.encode_pieces(predicted)
    _check_size(model, source_ids, target_ids)
    maps = model.explain(
        torch.tensor([source_ids], device=model.device),
        torch.tensor([[EOS, *target_ids[:-1]]], device=model.device),
    )
    found = [_layer_map(item) for item in maps]
    return Explanation([*pieces, END], [*predicted, END], found, model.is_joint)


def unknown_pieces(pipeline: TextPipeline, source: str) -> list[str]:
    """Return the pieces of a source sentence that the vocabulary does not know."""
    pieces = pipeline.source.pieces(source)
    ids = pipeline.source.encode_pieces(pieces)[:-1]
    return [piece for piece, token in zip(pieces, ids, strict=True) if token == UNK]


def _layer_map(item: AttentionMap) -> LayerMap:
    """Split ``joint.2.source`` into ``joint.source`` and 3, and put the heads in front."""
    match = re.fullmatch(r"(\w+)\.(\d+)\.(\w+)", item.name)
    kind, layer = (f"{match[1]}.{match[3]}", int(match[2]) + 1) if match else (item.name, None)
    weights = item.weights[0].float().cpu().numpy()
    place = next(n for n, axis in enumerate(item.axes) if axis in ("head", "feature"))
    axes = tuple(axis for n, axis in enumerate(item.axes) if n != place)
    return LayerMap(kind, layer, item.axes[place], axes, np.moveaxis(weights, place, 0))


def _check_size(
    model: TranslationModel, source_ids: Sequence[int], target_ids: Sequence[int]
) -> None:
    S, T = len(source_ids), len(target_ids)
    stacks = ("layers", "encoder_layers", "decoder_layers", "prenet_layers")
    layers = sum(getattr(model.config, name, 0) for name in stacks)
    per_head = S * T * (S + T) if model.is_joint else S * S + T * T + S * T
    if layers * getattr(model.config, "heads", 1) * per_head > MOST_WEIGHTS:
        raise DecodingError(
            f"a pair of {S} and {T} tokens has too many attention weights to look at",
            hint="choose a shorter sentence, or a part of this one",
            kind="analysis.long-sentence",
        )
