"""The attention of one system for one sentence and its translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.analysis.attention.explain import END, Explanation, explain, unknown_pieces
from jtrans.analysis.attention.views import View, ViewSelection, views
from jtrans.errors import DecodingError
from jtrans.progress import Progress

if TYPE_CHECKING:
    from jtrans.decoding.translator import Translator


@dataclass(frozen=True)
class ExplainedPair:
    """One system and one sentence, ready to show."""

    system: str
    source: str  # raw text
    text: str  # the translation, raw text
    line: int | None  # of the split, counted from 0; None for a sentence the user typed
    explanation: Explanation  # all maps
    shown: list[View]  # the selected views
    cell: tuple[int, int]  # (target, source) positions of the slices

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON; lines and positions are counted from 1."""
        return {
            "system": self.system,
            "line": None if self.line is None else self.line + 1,
            "source": self.source,
            "target": self.text,
            "source_tokens": self.explanation.source,
            "target_tokens": self.explanation.predicted,
            "target_token": self.cell[0] + 1,
            "source_token": self.cell[1] + 1,
            "views": [view.to_json() for view in self.shown],
        }


def explain_pair(
    translator: Translator,
    system: str,
    source: str,
    target: str | None,
    line: int | None,
    selection: ViewSelection,
    progress: Progress,
) -> ExplainedPair:
    """Return the attention of a system for one sentence and a translation, both raw text.

    Without a target, the system's own translation is used. A warning lists the subwords that are
    not in the vocabulary.

    Raises:
        DecodingError: a sentence is empty or too long, or there is no such layer, head or token.
    """
    unknown = unknown_pieces(translator.pipeline, source)
    if unknown:
        progress.warn(f"not in the vocabulary of {system}: {' '.join(unknown)}")
    if target is None:
        count = len(translator.pipeline.source.pieces(source)) + 1
        if count > translator.longest:  # the search would translate parts of it, each alone
            raise DecodingError(
                f"the source has {count:,} tokens, </s> counted, and {system} translates at most "
                f"{translator.longest:,} at once",
                hint="choose a shorter sentence, or a part of this one",
                kind="analysis.long-sentence",
            )
        best = translator.translate_nbest([source], 1, progress)[0][0]
        text, predicted = best.text, [token for token in best.tokens if token != END]
    else:
        text, predicted = target, translator.pipeline.target.pieces(target)
    explanation = explain(translator.models[0], translator.pipeline, source, predicted)
    shown, cell = views(explanation, selection), selection.cell(explanation)
    return ExplainedPair(system, source, text, line, explanation, shown, cell)


def strongest(view: View) -> list[tuple[str, str]]:
    """Return the three largest weights of each row of the last matrix as text."""
    matrix = view.matrices[-1]
    rows = []
    for label, row in zip(matrix.rows, matrix.values, strict=True):
        order = sorted(range(len(row)), key=lambda n: (-row[n], n))[:3]
        parts = [f"“{matrix.columns[n]}” {100 * row[n]:.0f} %" for n in order if row[n] >= 0.005]
        rows.append((label, " · ".join(parts)))
    return rows
