"""The attention explorer: sentences whose attention a page shows cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.analysis.attention.compact import CompactExplanation, explain_lines
from jtrans.analysis.report.pages import fragment, render

if TYPE_CHECKING:
    from markupsafe import Markup

    from jtrans.analysis.attention.pairs import ExplainedPair
    from jtrans.analysis.study.study import Study
    from jtrans.progress import Progress

MOST_SENTENCES = 5
MOST_LETTERS = 60  # of a sentence in the list to choose from
PIECES = (6, 24)  # shortest and longest sentence: fewer show little, more cells are not read
MOST_BYTES = 1_200_000  # of weights in a page, before base64 adds a third


@dataclass(frozen=True)
class ExploredSentence:
    """One sentence of the explorer, with the attention of every system that has a model.

    Args:
        line: of the split, counted from 0; None for a sentence the user typed.
        source: raw text.
        reference: raw text, of several the first; empty where there is none.
        pairs: one per system.
    """

    line: int | None
    source: str
    reference: str
    pairs: list[CompactExplanation]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a page."""
        start = self.source
        if len(start) > MOST_LETTERS:
            start = start[: MOST_LETTERS - 3] + "..."
        return {
            "label": start if self.line is None else f"{self.line + 1}: {start}",
            "source": self.source,
            "reference": self.reference,
            "pairs": [pair.to_json() for pair in self.pairs],
        }


def explored_sentences(
    study: Study, lines: Sequence[int], progress: Progress
) -> list[ExploredSentence]:
    """Return the attention of the first lines that are short enough, as far as they fit a page."""
    common = study.runs[0].pipeline.target
    lines = _short_lines(study, lines)
    explained = [
        explain_lines(subject.run_members[0], lines, common, progress)
        for subject in study.with_model
    ]
    result: list[ExploredSentence] = []
    size = 0
    for line, *pairs in zip(lines, *explained, strict=True):
        size += sum(math.prod(item.shape) for pair in pairs for item in pair.maps)
        if size > MOST_BYTES:
            break
        texts = (study.source_lines[line], study.reference_lines[line])
        result.append(ExploredSentence(line, *texts, list(pairs)))
    return result


def explorer(systems: Sequence[tuple[str, int]], sentences: Sequence[ExploredSentence]) -> Markup:
    """Return the explorer with its data, a part of a page.

    Args:
        systems: name and index of the colour, in the order of every sentence's pairs.
        sentences: at least one.
    """
    data = {"sentences": [sentence.to_json() for sentence in sentences]}
    return fragment("explorer.html", names=list(systems), data=data)


def attention_page(pairs: Sequence[Sequence[ExplainedPair]]) -> str:
    """Return a page with the explorer alone.

    Args:
        pairs: of every system, the same sentences.
    """
    names = [own[0].system for own in pairs]
    sentences = []
    for same in zip(*pairs, strict=True):  # one sentence, every system
        compact = [CompactExplanation.of(p.explanation, p.text) for p in same]
        sentences.append(ExploredSentence(same[0].line, same[0].source, "", compact))
    systems = [(name, number) for number, name in enumerate(names)]
    title = f"Attention of {' and '.join(names)}"
    return render("attention.html", title=title, explorer=explorer(systems, sentences))


def _short_lines(study: Study, lines: Sequence[int]) -> list[int]:
    """Return the first lines with neither few nor many pieces; else the shortest line."""

    def longest(line: int) -> int:
        members = [subject.run_members[0] for subject in study.with_model]
        own = [member.source_pieces[line] for member in members]
        words = [(m.run.pipeline.target, m.hypothesis_words[line]) for m in members]
        return max(map(len, [*own, *(side.split(translation) for side, translation in words)]))

    lengths = {line: longest(line) for line in lines}
    least, most = PIECES
    fit = [line for line in lines if least <= lengths[line] <= most]
    return fit[:MOST_SENTENCES] or sorted(lines, key=lambda line: lengths[line])[:1]
