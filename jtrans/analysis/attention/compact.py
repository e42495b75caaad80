"""Attention as a page holds it: averaged over heads, as bytes, for one sentence pair.

An explorer shows no more than the mean over heads and 255 shades, and all weights of a joint
system would fill megabytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.attention.explain import Explanation, LayerMap, explain
from jtrans.analysis.attention.views import kind_title
from jtrans.analysis.study.members import is_same_segmentation
from jtrans.progress import Progress
from jtrans.text.vocabulary import UNK

if TYPE_CHECKING:
    from jtrans.analysis.study.members import Member
    from jtrans.text.pipeline import TextSide


@dataclass(frozen=True)
class CompactMap:
    """One attention, averaged over heads.

    Args:
        kind: such as ``joint.source``.
        title: the kind in words.
        axes: what the axes are; the last one is attended over.
        shape: their sizes.
        data: the weights as bytes in base64.
    """

    kind: str
    title: str
    axes: list[str]
    shape: list[int]
    data: str

    @classmethod
    def of(cls, layer_map: LayerMap) -> CompactMap:
        """Average a map over heads or features."""
        weights = np.rint(layer_map.mean() * 255).astype(np.uint8)
        data = base64.b64encode(weights.tobytes()).decode("ascii")
        title = kind_title(layer_map.kind)
        return cls(layer_map.kind, title, list(layer_map.axes), list(weights.shape), data)


@dataclass(frozen=True)
class CompactExplanation:
    """What the explorer shows of one system for one sentence.

    Args:
        text: the translation as raw text.
        source: pieces, the end mark last.
        predicted: target pieces, the end mark last.
        cell: target and source position to begin with.
        maps: all attentions.
    """

    text: str
    source: list[str]
    predicted: list[str]
    cell: list[int]
    maps: list[CompactMap]

    @classmethod
    def of(cls, explanation: Explanation, text: str) -> CompactExplanation:
        """Average an explanation over heads."""
        cell = list(explanation.strongest_cell())
        maps = [CompactMap.of(layer_map) for layer_map in explanation.maps]
        return cls(text, explanation.source, explanation.predicted, cell, maps)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CompactExplanation:
        """Read what `to_json` returned."""
        return cls(**{**values, "maps": [CompactMap(**item) for item in values["maps"]]})

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def explain_lines(
    member: Member, lines: Sequence[int], common: TextSide, progress: Progress
) -> list[CompactExplanation]:
    """Return a run's attention for some lines of the split and its own translations of them.

    Args:
        member: a run; its model is loaded only when the run's folder does not hold the result.
        lines: counted from 0.
        common: the target side that the words of all translations follow.
        progress: reports how far the work is.
    """
    texts = [member.hypotheses[line] for line in lines]
    cached = member.cached("attention", lines=list(lines), translations=texts)
    try:
        stored = json.loads(str((cached.read() or {})["explanations"]))
        return [CompactExplanation.from_json(values) for values in stored]
    except (KeyError, TypeError, ValueError):
        pass  # not there, or damaged
    explanations = []
    for done, (line, text) in enumerate(zip(lines, texts, strict=True), start=1):
        explanation = explain(
            member.model,
            member.run.pipeline,
            member.text.source_lines[line],
            _translation_pieces(member, line, common),
        )
        explanations.append(CompactExplanation.of(explanation, text))
        progress.advance("Attention", done, len(lines))
    content = json.dumps([explanation.to_json() for explanation in explanations])
    cached.write({"explanations": np.array(content)}, progress)
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
