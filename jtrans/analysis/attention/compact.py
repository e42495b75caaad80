"""Attention as a page holds it: averaged over heads, as bytes, for one sentence pair.

An explorer shows no more than the mean over heads and 255 shades, and all weights of a joint
system would fill megabytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.attention.explain import Explanation, explain
from jtrans.analysis.attention.views import kind_title
from jtrans.analysis.study.members import is_same_segmentation
from jtrans.progress import Progress
from jtrans.text.vocabulary import UNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.analysis.study.members import Member
    from jtrans.text.pipeline import TextSide


@dataclass(frozen=True)
class CompactMap:
    """One attention, averaged over heads, as bytes."""

    kind: str
    layer: int | None
    axes: tuple[str, ...]
    weights: NDArray[np.uint8]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page: the weights as base64."""
        data = base64.b64encode(np.ascontiguousarray(self.weights).tobytes()).decode("ascii")
        return {
            "kind": self.kind,
            "title": kind_title(self.kind),
            "axes": list(self.axes),
            "shape": list(self.weights.shape),
            "data": data,
        }


@dataclass(frozen=True)
class CompactExplanation:
    """What the explorer shows of one system for one sentence.

    Args:
        line: of the split, counted from 0; None for a sentence the user typed.
        text: the translation as raw text.
        source: pieces, the end mark last.
        predicted: target pieces, the end mark last.
        cell: (target, source) to begin with.
        maps: all attentions.
    """

    line: int | None
    text: str
    source: list[str]
    predicted: list[str]
    cell: tuple[int, int]
    maps: list[CompactMap]

    @classmethod
    def of(cls, explanation: Explanation, line: int | None, text: str) -> CompactExplanation:
        """Average an explanation over heads."""
        maps = [
            CompactMap(m.kind, m.layer, m.axes, np.rint(m.mean() * 255).astype(np.uint8))
            for m in explanation.maps
        ]
        cell = explanation.strongest_cell()
        return cls(line, text, explanation.source, explanation.predicted, cell, maps)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page."""
        return {**vars(self), "maps": [compact_map.to_json() for compact_map in self.maps]}


def explain_lines(
    member: Member, lines: Sequence[int], common: TextSide, progress: Progress
) -> list[CompactExplanation]:
    """Return a run's attention for some lines of the split and its own translations of them.

    Args:
        member: a run; its model is loaded only when the run's folder does not hold the result.
        lines: counted from 0.
        common: the target side that the words of all translations follow.
        progress: told how far the work is.
    """
    texts = [member.hypotheses[line] for line in lines]
    cache = member.cached("attention", lines=list(lines), translations=texts)
    arrays = cache.read()
    cached = None if arrays is None else _unpack(arrays)
    if cached is not None:
        return cached
    explanations = []
    for done, (line, text) in enumerate(zip(lines, texts, strict=True), start=1):
        explanation = explain(
            member.model,
            member.run.pipeline,
            member.text.source_lines[line],
            _translation_pieces(member, line, common),
        )
        explanations.append(CompactExplanation.of(explanation, line, text))
        progress.advance("Attention", done, len(lines))
    cache.write(_pack(explanations), progress)
    return explanations


def _translation_pieces(member: Member, line: int, common: TextSide) -> list[str]:
    """Return the pieces of a run's own translation, without end mark."""
    side = member.run.pipeline.target
    if not is_same_segmentation(side, common):
        return side.pieces(member.hypotheses[line])
    unknown = side.vocabulary.token(UNK)
    pieces: list[str] = []
    for word in member.hypothesis_words[line]:
        # not to be split into letters: the model did write this one token
        pieces += [word] if word == unknown else side.split([word])
    return pieces


def _pack(explanations: Sequence[CompactExplanation]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    described = []
    for n, explanation in enumerate(explanations):
        maps = []
        for m, layer in enumerate(explanation.maps):
            arrays[f"weights{n}.{m}"] = layer.weights
            maps.append({"kind": layer.kind, "layer": layer.layer, "axes": layer.axes})
        described.append({**vars(explanation), "maps": maps})
    return {**arrays, "about": np.array(json.dumps(described))}


def _unpack(arrays: dict[str, NDArray[Any]]) -> list[CompactExplanation] | None:
    try:
        explanations = []
        for n, values in enumerate(json.loads(str(arrays["about"]))):
            values.pop("is_joint", None)  # written by earlier versions
            maps = [
                CompactMap(m["kind"], m["layer"], tuple(m["axes"]), arrays[f"weights{n}.{number}"])
                for number, m in enumerate(values["maps"])
            ]
            cell = (values["cell"][0], values["cell"][1])
            explanations.append(CompactExplanation(**{**values, "maps": maps, "cell": cell}))
    except (KeyError, TypeError, ValueError):
        return None  # damaged: computed again
    return explanations
