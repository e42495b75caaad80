"""The attention explorer: sentences whose attention a page shows cell by cell.

A page holds the attention averaged over heads, as bytes: it shows only this mean in 255 shades,
and all weights of a joint system would take megabytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from jtrans.analysis.attention.explain import END, Explanation, LayerMap, explain
from jtrans.analysis.attention.pairs import ExplainedPair
from jtrans.analysis.attention.views import kind_title
from jtrans.analysis.output.labels import excerpt, isolated, shorten
from jtrans.analysis.report.pages import fragment, render
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.text.vocabulary import UNK

MOST_SENTENCES = 5
MOST_LETTERS = 60  # shown of a sentence in the list to choose from
PIECES = (6, 24)  # of a sentence: shorter ones show little, longer ones are unreadable
MOST_PIECES = 60  # of a translation: one that loops would fill pages with its maps
MOST_BYTES = 1_200_000  # of the weights on a page, before base64 adds a third


@dataclass(frozen=True)
class CompactMap:
    """One attention, averaged over heads."""

    kind: str  # such as ``joint.source``
    title: str  # the kind in words
    axes: list[str]  # the names of the axes; the last is attended over
    shape: list[int]  # the sizes of the axes
    data: str  # the weights as bytes in base64

    @classmethod
    def of(cls, layer_map: LayerMap) -> CompactMap:
        """Average a map over heads or features."""
        weights = np.rint(layer_map.mean() * 255).astype(np.uint8)
        data = base64.b64encode(weights.tobytes()).decode("ascii")
        title = kind_title(layer_map.kind)
        return cls(layer_map.kind, title, list(layer_map.axes), list(weights.shape), data)


@dataclass(frozen=True)
class CompactExplanation:
    """The explorer's data of one system for one sentence."""

    text: str  # the translation as raw text
    source: list[str]  # pieces, the end mark last
    predicted: list[str]  # target pieces, the end mark last
    cell: list[int]  # the target and source position shown first
    maps: list[CompactMap]  # every attention map

    @classmethod
    def of(cls, explanation: Explanation, text: str) -> CompactExplanation:
        """Average an explanation over heads."""
        cell = list(explanation.strongest_cell())
        maps = [CompactMap.of(layer_map) for layer_map in explanation.maps]
        return cls(text, explanation.source, explanation.predicted, cell, maps)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CompactExplanation:
        """Parse the output of `asdict`."""
        return cls(**{**values, "maps": [CompactMap(**item) for item in values["maps"]]})


@dataclass(frozen=True)
class ExploredSentence:
    """One sentence of the explorer, with the attention of every system that has a model."""

    line: int | None  # of the split, counted from 0; None for a sentence the user typed
    source: str  # raw text
    reference: str  # raw text, the first if there are several; empty if there is none
    pairs: list[CompactExplanation]  # one per system

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page."""
        start = isolated(shorten(self.source, MOST_LETTERS))
        pairs = [{**asdict(pair), "text": excerpt(pair.text)} for pair in self.pairs]
        return {
            "label": start if self.line is None else f"{self.line + 1}: {start}",
            "source": excerpt(self.source),
            "reference": excerpt(self.reference),
            "pairs": pairs,
        }


def explored_sentences(study: Study, lines: Sequence[int]) -> list[ExploredSentence]:
    """Return the attention of the first lines of suitable length, as many as fit a page."""
    if not study.with_model:
        return []
    lines = _short_lines(study, lines)
    explained = [explain_lines(s.run_members[0], lines) for s in study.with_model]
    result: list[ExploredSentence] = []
    size = 0
    for line, *pairs in zip(lines, *explained, strict=True):
        if not any(pair.maps for pair in pairs):
            continue
        size += sum(math.prod(item.shape) for pair in pairs for item in pair.maps)
        if result and size > MOST_BYTES:
            break
        texts = (study.source_lines[line], study.reference_lines[line])
        result.append(ExploredSentence(line, *texts, pairs))
    return result


def explorer(systems: Sequence[tuple[str, int]], sentences: Sequence[ExploredSentence]) -> Markup:
    """Return the explorer with its data, a part of a page.

    Args:
        systems: the name and index (for its colour) of each, in the order of a sentence's pairs.
        sentences: at least one.
    """
    data = {"sentences": [sentence.to_json() for sentence in sentences]}
    return fragment("explorer.html", names=systems, data=data)


def attention_page(pairs: Sequence[Sequence[ExplainedPair]]) -> str:
    """Return a page with the explorer alone.

    Args:
        pairs: for every system its explained pairs, with the same sentences for all.
    """
    names = [explained[0].system for explained in pairs]
    sentences = []
    for same in zip(*pairs, strict=True):  # the pairs of one sentence
        compact = [CompactExplanation.of(p.explanation, p.text) for p in same]
        sentences.append(ExploredSentence(same[0].line, same[0].source, "", compact))
    systems = [(name, number) for number, name in enumerate(names)]
    title = f"Attention of {' and '.join(map(isolated, names))}"
    return render("attention.html", title=title, explorer=explorer(systems, sentences))


def _short_lines(study: Study, lines: Sequence[int]) -> list[int]:
    """Return the first lines within `PIECES`; if there are none, the shortest."""

    def longest(line: int) -> int:
        members = [subject.run_members[0] for subject in study.with_model]
        sources = [member.source_pieces[line] for member in members]
        words = [(m.run.pipeline.target, m.translation.words[line]) for m in members]
        return max(map(len, [*sources, *(side.split(translation) for side, translation in words)]))

    lengths = {line: longest(line) for line in lines}
    least, most = PIECES
    fit = [line for line in lines if least <= lengths[line] <= most]
    return fit[:MOST_SENTENCES] or sorted(lines, key=lambda line: lengths[line])[:1]


def explain_lines(member: Member, lines: Sequence[int]) -> list[CompactExplanation]:
    """Return a run's attention for some lines of the split and its own translations of them.

    Of a pair with more than `MOST_PIECES` no map is computed.

    Args:
        member: a run; its model is loaded only when the run's folder does not hold the result.
        lines: counted from 0.
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
        source, predicted = member.source_pieces[line], _translation_pieces(member, line)
        if max(len(source), len(predicted)) < MOST_PIECES:
            read = member.text.source_lines[line]
            explanation = explain(member.model, member.run.pipeline, read, predicted)
            explanations.append(CompactExplanation.of(explanation, text))
        else:
            whole = [*source, END], [*predicted, END]
            explanations.append(CompactExplanation(text, *whole, [0, 0], []))
        member.progress.advance("Attention", done, len(lines))
    content = json.dumps([asdict(explanation) for explanation in explanations])
    cached.write({"explanations": np.array(content)}, member.progress)
    return explanations


def _translation_pieces(member: Member, line: int) -> list[str]:
    """Return the pieces of a run's own translation, without end mark."""
    side = member.run.pipeline.target
    unknown = side.vocabulary.token(UNK)
    pieces: list[str] = []
    for word in member.translation.words[line]:
        # the model wrote this as a single token, which must not be split into letters
        pieces += [word] if word == unknown else side.split([word])
    return pieces
