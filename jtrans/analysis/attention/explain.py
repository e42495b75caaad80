"""All attention weights of a system for one sentence pair.

Target position j reads token j-1 (the first position, a start mark) and predicts token j. So a
query is labelled with the token it predicts, and a key with the token it has read.

A joint system has one attention per line of its grid: source attention [T, S, S] for every target
position, target attention [S, T, T] for every source position. `views` slices them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jtrans.errors import DecodingError
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import EOS, UNK

if TYPE_CHECKING:
    from jtrans.models.base import AttentionMap, TranslationModel

Weights = NDArray[np.float32]

START, END = "<s>", "</s>"
# The most weights of one pair, half a gigabyte in float32: a joint system of 7 layers and 4 heads
# reaches this at 130 x 130 tokens.
MOST_WEIGHTS = 128_000_000
ALONG_SOURCE = ("target", "source", "source")  # a joint system, one attention per target position
ALONG_TARGET = ("source", "target", "target")


@dataclass(frozen=True)
class LayerMap:
    """The weights of one attention."""

    name: str  # in the model, such as ``joint.2.source``
    kind: str  # the name without the layer, such as ``joint.source``
    layer: int | None  # counted from 1; None if a system has only one
    has_heads: bool  # whether the first axis of `weights` is heads (not features, or absent)
    axes: tuple[str, ...]  # the other axes, ``source`` or ``target``; the last is attended over
    weights: Weights  # [heads or features, *axes]

    @property
    def heads(self) -> int:
        """The number of heads; 0 if there are none."""
        return self.weights.shape[0] if self.has_heads else 0

    def mean(self) -> Weights:
        """Return the weights averaged over heads or features, [*axes]."""
        mean: Weights = self.weights.mean(axis=0, dtype=np.float32)
        return mean


@dataclass(frozen=True)
class Explanation:
    """Every attention map of one system for one sentence pair."""

    source: list[str]  # S subwords, the end mark last
    predicted: list[str]  # T target subwords, the end mark last
    maps: list[LayerMap]  # in the order of the network

    @property
    def read(self) -> list[str]:
        """The subword that each target position reads: the preceding one."""
        return [START, *self.predicted[:-1]]

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention, in the order of the network."""
        return list(dict.fromkeys(layer_map.kind for layer_map in self.maps))

    @property
    def has_slices(self) -> bool:
        """Whether there are maps of a joint system, of which a slice is shown."""
        return any(layer_map.axes in (ALONG_SOURCE, ALONG_TARGET) for layer_map in self.maps)

    def layers(self, kind: str) -> list[LayerMap]:
        """Return the maps of one kind, first layer first."""
        return [layer_map for layer_map in self.maps if layer_map.kind == kind]

    def strongest_cell(self) -> tuple[int, int]:
        """Return the (target, source) cell with the largest weight, ignoring end marks."""
        between = [m for m in self.maps if m.axes == ("target", "source")]
        if not between:
            return 0, 0
        weights = between[-1].mean()
        inner = weights[: max(1, weights.shape[0] - 1), : max(1, weights.shape[1] - 1)]
        row, column = np.unravel_index(int(inner.argmax()), inner.shape)
        return int(row), int(column)


def explain(
    model: TranslationModel, pipeline: TextPipeline, source: str, predicted: Sequence[str]
) -> Explanation:
    """Run a system on one pair and return all its attention weights.

    Args:
        model: in evaluation mode.
        pipeline: the text pipeline of its run.
        source: raw text.
        predicted: target subwords without end mark, given or the system's own.

    Raises:
        ConfigError: the axes of a map do not fit its weights.
        DecodingError: a sentence is empty, or the weights are too many to hold in memory.
    """
    import torch

    from jtrans.models.contract import attention_maps

    pieces = pipeline.source.pieces(source)
    if not pieces:
        raise DecodingError(
            "the source sentence is empty",
            hint='give some text: --sentence "..."',
            kind="analysis.empty-sentence",
        )
    source_ids = pipeline.source.encode_pieces(pieces)
    target_ids = pipeline.target.encode_pieces(predicted)
    _check_size(model, len(source_ids), len(target_ids))
    maps = attention_maps(
        model,
        torch.tensor([source_ids], device=model.device),
        torch.tensor([[EOS, *target_ids[:-1]]], device=model.device),
    )
    layer_maps = [_layer_map(item) for item in maps]
    shown = [m for m in layer_maps if len(m.axes) == 2 or m.axes in (ALONG_SOURCE, ALONG_TARGET)]
    return Explanation([*pieces, END], [*predicted, END], shown)


def unknown_pieces(pipeline: TextPipeline, source: str) -> list[str]:
    """Return the subwords of a source sentence that are not in the vocabulary."""
    pieces = pipeline.source.pieces(source)
    ids = pipeline.source.encode_pieces(pieces)[:-1]
    return [piece for piece, token in zip(pieces, ids, strict=True) if token == UNK]


def _layer_map(item: AttentionMap) -> LayerMap:
    """Split ``joint.2.source`` into ``joint.source`` and 3, and put heads or features in front."""
    match = re.fullmatch(r"(\w+)\.(\d+)\.(\w+)", item.name)
    kind, layer = (f"{match[1]}.{match[3]}", int(match[2]) + 1) if match else (item.name, None)
    positions = [n for n, axis in enumerate(item.axes) if axis in ("source", "target")]
    parts = [n for n in range(len(item.axes)) if n not in positions]
    weights = item.weights[0].float().cpu().numpy().transpose(*parts, *positions)
    return LayerMap(
        item.name,
        kind,
        layer,
        [item.axes[n] for n in parts] == ["head"],
        tuple(item.axes[n] for n in positions),
        weights.reshape(-1, *weights.shape[len(parts) :]),
    )


def _check_size(model: TranslationModel, source: int, target: int) -> None:
    """Refuse a pair with too many weights, extrapolated from a pair of one token each."""
    import torch

    from jtrans.models.contract import attention_maps

    shortest = torch.full((1, 1), EOS, device=model.device)
    total = 0
    for item in attention_maps(model, shortest, shortest):
        growth = source ** item.axes.count("source") * target ** item.axes.count("target")
        total += item.weights.numel() * growth
    if total > MOST_WEIGHTS:
        raise DecodingError(
            f"a pair of {source} and {target} tokens has too many attention weights to show",
            hint="choose a shorter sentence, or a part of this one",
            kind="analysis.long-sentence",
        )
