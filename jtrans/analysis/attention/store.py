"""Attention of a few test sentences, computed once per run and kept in its folder.

Weights are kept averaged over heads, as bytes (255 is 1): an explorer shows no more, and all
layers of a joint system would fill megabytes otherwise.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.attention.explain import Explanation, explain
from jtrans.analysis.study.members import is_same_segmentation
from jtrans.progress import Progress
from jtrans.text.vocabulary import UNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.analysis.study.members import Member
    from jtrans.text.pipeline import TextSide


@dataclass(frozen=True)
class StoredMap:
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
            "layer": self.layer,
            "axes": list(self.axes),
            "shape": list(self.weights.shape),
            "data": data,
        }


@dataclass(frozen=True)
class StoredExplanation:
    """What the explorer shows of one system for one sentence.

    Args:
        line: of the split, counted from 0; None for a sentence the user typed.
        text: the translation as raw text.
        source: pieces, the end mark last.
        predicted: target pieces, the end mark last.
        is_joint: whether the system has a grid.
        cell: (target, source) to begin with.
        maps: all attentions.
    """

    line: int | None
    text: str
    source: list[str]
    predicted: list[str]
    is_joint: bool
    cell: tuple[int, int]
    maps: list[StoredMap]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page."""
        return {**vars(self), "maps": [item.to_json() for item in self.maps]}


def compact(explanation: Explanation, line: int | None, text: str) -> StoredExplanation:
    """Return an explanation averaged over heads, as bytes."""
    maps = [
        StoredMap(item.kind, item.layer, item.axes, np.rint(item.mean() * 255).astype(np.uint8))
        for item in explanation.maps
    ]
    return StoredExplanation(
        line,
        text,
        explanation.source,
        explanation.predicted,
        explanation.is_joint,
        explanation.strongest_cell(),
        maps,
    )


def explain_lines(
    member: Member, lines: Sequence[int], common: TextSide, progress: Progress
) -> list[StoredExplanation]:
    """Return a run's attention for some lines of the split and its own translations of them.

    Args:
        member: a run; its model is loaded only when something is not kept yet.
        lines: counted from 0.
        common: the target side that the words of all translations follow.
        progress: told how far the work is.
    """
    texts = [member.hypotheses[line] for line in lines]
    kept = member.kept("attention", lines=list(lines), translations=texts)
    arrays = kept.read()
    found = None if arrays is None else _unpack(arrays)
    if found is not None:
        return found
    made = []
    for done, (line, text) in enumerate(zip(lines, texts, strict=True), start=1):
        pair = explain(
            member.model,
            member.run.pipeline,
            member.text.source_lines[line],
            _translation_pieces(member, line, common),
        )
        made.append(compact(pair, line, text))
        progress.advance("Attention", done, len(lines))
    kept.write(_pack(made), progress)
    return made


def _translation_pieces(member: Member, line: int, common: TextSide) -> list[str]:
    """Return the pieces of a run's own translation, without end mark."""
    side = member.run.pipeline.target
    if not is_same_segmentation(side, common):
        return side.pieces(member.hypotheses[line])
    unknown = side.vocabulary.token(UNK)
    pieces: list[str] = []
    for word in member.hypothesis_words[line]:
        # not to be cut into letters: the model did write this one token
        pieces += [word] if word == unknown else side.split([word])
    return pieces


def _pack(found: Sequence[StoredExplanation]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    described = []
    for n, item in enumerate(found):
        maps = []
        for m, one in enumerate(item.maps):
            arrays[f"weights{n}.{m}"] = one.weights
            maps.append({"kind": one.kind, "layer": one.layer, "axes": one.axes})
        described.append({**vars(item), "maps": maps})
    return {**arrays, "about": np.array(json.dumps(described))}


def _unpack(arrays: dict[str, NDArray[Any]]) -> list[StoredExplanation] | None:
    try:
        found = []
        for n, item in enumerate(json.loads(str(arrays["about"]))):
            maps = [
                StoredMap(one["kind"], one["layer"], tuple(one["axes"]), arrays[f"weights{n}.{m}"])
                for m, one in enumerate(item["maps"])
            ]
            cell = (item["cell"][0], item["cell"][1])
            found.append(StoredExplanation(**{**item, "maps": maps, "cell": cell}))
    except (KeyError, TypeError, ValueError):
        return None  # damaged: made again
    return found
