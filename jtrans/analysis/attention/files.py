"""The attention of one pair as files: pictures, weights as CSV, everything as JSON."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.attention.explain import END, Explanation, explain, unknown_pieces
from jtrans.analysis.attention.views import Choice, View, cell_of, views
from jtrans.analysis.output.heatmaps import draw_view
from jtrans.errors import DecodingError
from jtrans.files import write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtrans.decoding.translator import Translator
    from jtrans.progress import Progress

COLUMNS = ("map", "layer", "head", "row", "row_token", "column", "column_token", "weight")
STEM_LETTERS = 40


@dataclass(frozen=True)
class Slices:
    """Which layers, heads and slices a user asked for, before there is a sentence.

    Args:
        layer: a number counted from 1, ``all``, or None for the last.
        head: the same, None for the mean.
        source_token: number counted from 1, or text, of the source token of a slice.
        target_token: the same for the target.
    """

    layer: int | str | None = None
    head: int | str | None = None
    source_token: str | None = None
    target_token: str | None = None

    def on(self, explanation: Explanation) -> Choice:
        """Return the choice for one pair.

        Raises:
            DecodingError: no such token.
        """
        return Choice(
            self.layer,
            self.head,
            _position("--target-token", self.target_token, explanation.predicted),
            _position("--source-token", self.source_token, explanation.source),
        )


@dataclass(frozen=True)
class ExplainedPair:
    """One system and one sentence, ready to show.

    Args:
        system: its name.
        source: raw text.
        text: the translation looked at, raw text.
        line: of the split, counted from 0; None for a sentence the user typed.
        explanation: all maps.
        shown: what was chosen of them.
        cell: (target, source) positions of the slices.
    """

    system: str
    source: str
    text: str
    line: int | None
    explanation: Explanation
    shown: list[View]
    cell: tuple[int, int]

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
    slices: Slices,
    progress: Progress,
) -> ExplainedPair:
    """Return where a system looks for one sentence.

    Args:
        translator: of the system's run.
        system: its name.
        source: raw text.
        target: a translation to force, raw text; None for the system's own.
        line: of the split, or None.
        slices: what to show.
        progress: told of pieces the vocabulary does not know.

    Raises:
        DecodingError: an empty or too long sentence, or no such layer, head or token.
    """
    unknown = unknown_pieces(translator.pipeline, source)
    if unknown:
        progress.warn(f"{system} does not know: {' '.join(unknown)}")
    if target is None:
        best = translator.translate_nbest([source], 1, progress)[0][0]
        text, predicted = best.text, [token for token in best.tokens if token != END]
    else:
        text, predicted = target, translator.pipeline.target.pieces(target)
    explanation = explain(translator.models[0], translator.pipeline, source, predicted)
    choice = slices.on(explanation)
    shown = views(explanation, choice)
    return ExplainedPair(
        system, source, text, line, explanation, shown, cell_of(explanation, choice)
    )


def write_pair(pair: ExplainedPair, folder: Path, split: str, progress: Progress) -> list[Path]:
    """Write pictures, CSV and JSON of one pair.

    Args:
        pair: to write.
        folder: is made when it is not there.
        split: its name, for the names of files.
        progress: told of characters no font has.

    Returns:
        The files written.
    """
    name = f"{split}-{pair.line + 1}" if pair.line is not None else _slug(pair.source)
    stem = f"attention.{name}"
    files = []
    for view in pair.shown:
        path = folder / f"{stem}.{view.name}.csv"
        write_text(path, to_csv(view))
        files += [path, *draw_view(view, folder / f"{stem}.{view.name}", progress)]
    path = folder / f"{stem}.json"
    write_json(path, pair.to_json())
    return [*files, path]


def to_csv(view: View) -> str:
    """Return every weight of a view on a line of its own; positions are counted from 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for matrix in view.matrices:
        head = "mean" if matrix.head is None else matrix.head
        for r, row in enumerate(matrix.values.tolist()):
            for c, weight in enumerate(row):
                place = [r + 1, matrix.rows[r], c + 1, matrix.columns[c]]
                writer.writerow([matrix.map, matrix.layer, head, *place, f"{weight:.6f}"])
    return text.getvalue()


def strongest(view: View, most: int = 3) -> list[tuple[str, str]]:
    """Return for each row of the last matrix what it looks at most, in words."""
    matrix = view.matrices[-1]
    found = []
    for label, row in zip(matrix.rows, matrix.values, strict=True):
        order = sorted(range(len(row)), key=lambda n: (-row[n], n))[:most]
        parts = [f"{matrix.columns[n]} {100 * row[n]:.0f} %" for n in order if row[n] > 0]
        found.append((label, " · ".join(parts)))
    return found


def _slug(text: str) -> str:
    return "-".join(re.findall(r"\w+", text.lower()))[:STEM_LETTERS].rstrip("-") or "sentence"


def _position(option: str, wanted: str | None, labels: Sequence[str]) -> int | None:
    if wanted is None:
        return None
    if wanted.isdecimal():
        return int(wanted) - 1
    plain = [label.removesuffix("@@") for label in labels]
    for candidates in (list(labels), plain):
        if wanted in candidates:
            return candidates.index(wanted)
    shown = " ".join(f"{number}:{label}" for number, label in enumerate(labels, start=1))
    raise DecodingError(
        f"there is no token {wanted!r}",
        where=option,
        hint=f"the tokens are {shown}",
        kind="analysis.position",
    )
