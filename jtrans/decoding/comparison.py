"""Two ways of translating with the same weights, compared on one text by BLEU and speed.

They take turns piece by piece, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jtrans.decoding.translator import Translator
from jtrans.errors import CorpusError
from jtrans.evaluation.scores import corpus_score
from jtrans.progress import Progress

MOST_LOST = 0.2  # BLEU that another way of computing the same model may cost
PIECE_LINES = 128
WARM_UP_LINES = 4
COLUMNS = ["", "BLEU", "same", "sentences/s", "faster"]


@dataclass
class WayResult:
    """The translations of one way, and what they took."""

    name: str
    lines: list[str] = field(default_factory=list)  # raw text
    tokens: int = 0  # number of target tokens, ``</s>`` counted
    seconds: float = 0.0  # the time taken
    bleu: float = 0.0  # sacreBLEU's

    @property
    def sentences_per_second(self) -> float:
        """Lines per second."""
        return len(self.lines) / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "name": self.name,
            "bleu": self.bleu,
            "seconds": self.seconds,
            "sentences_per_second": self.sentences_per_second,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
        }


@dataclass(frozen=True)
class Comparison:
    """A way of translating, compared with the plain one."""

    plain: WayResult
    other: WayResult

    @property
    def lost(self) -> float:
        """The BLEU that the other way costs; negative if it gains."""
        return self.plain.bleu - self.other.bleu

    @property
    def same(self) -> float:
        """The share of equal translations."""
        equal = [a == b for a, b in zip(self.plain.lines, self.other.lines, strict=True)]
        return sum(equal) / len(equal)

    @property
    def speedup(self) -> float:
        """How many times as fast the other way is."""
        return self.plain.seconds / max(self.other.seconds, 1e-9)

    @property
    def is_held(self) -> bool:
        """Whether no more BLEU is lost than allowed."""
        return self.lost <= MOST_LOST

    def rows(self) -> list[list[str]]:
        """Return the numbers as rows of a table with the `COLUMNS`."""

        def row(way: WayResult, same: str, faster: str) -> list[str]:
            return [way.name, f"{way.bleu:.2f}", same, f"{way.sentences_per_second:,.1f}", faster]

        return [
            row(self.plain, "", ""),
            row(self.other, f"{self.same:.1%}", f"{self.speedup:.2f}x"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "lines": len(self.plain.lines),
            "systems": [self.plain.to_json(), self.other.to_json()],
            "same": self.same,
            "bleu_lost": self.lost,
            "bleu_may_lose": MOST_LOST,
            "speedup": self.speedup,
        }


def compare_ways(
    plain: tuple[str, Translator],
    other: tuple[str, Translator],
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    progress: Progress,
) -> Comparison:
    """Translate a text in two ways, in turns, and score both.

    Args:
        plain: the name and the translator of the plain way.
        other: the name and the translator of the other way.
        source: raw lines.
        references: sets of as many lines.
        progress: receives the number of lines done.

    Raises:
        CorpusError: there are no lines.
    """
    if not source:
        raise CorpusError("the text is empty: nothing to compare", kind="corpus.empty")
    ways = [(WayResult(name), translator) for name, translator in (plain, other)]
    for _, translator in ways:
        translator.translate(source[:WARM_UP_LINES])
    for begin in range(0, len(source), PIECE_LINES):
        piece = source[begin : begin + PIECE_LINES]
        for result, translator in ways if begin // PIECE_LINES % 2 == 0 else reversed(ways):
            started = time.perf_counter()
            best = [nbest[0] for nbest in translator.translate_nbest(piece, 1)]
            result.seconds += time.perf_counter() - started
            result.lines += [each.text for each in best]
            result.tokens += sum(len(each.tokens) for each in best)
        progress.advance("Comparing", begin + len(piece), len(source))
    for result, translator in ways:
        target = translator.pipeline.target
        result.bleu = corpus_score(
            "bleu",
            result.lines,
            references,
            target_language=target.language,
            lowercase=target.lowercase,
        )
    return Comparison(*(result for result, _ in ways))
