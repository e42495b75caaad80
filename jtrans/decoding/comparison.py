"""Two ways of translating with the same weights, compared on one text: what is lost, what is won.

The ways take turns piece by piece, so that both meet the machine in the same state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jtrans.decoding.translator import Translator
from jtrans.errors import CorpusError
from jtrans.evaluation.scores import corpus_bleu
from jtrans.progress import Progress

MOST_LOST = 0.2  # BLEU that another way of computing the same model may cost
PIECE_LINES = 128
WARM_UP_LINES = 4
COLUMNS = ["", "BLEU", "same", "sentences/s", "faster"]


@dataclass
class WayResult:
    """What one way of translating gave."""

    name: str  # of the way
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
    """A way of translating beside the plain one, which may lose so much BLEU."""

    plain: WayResult
    other: WayResult
    may_lose: float = MOST_LOST

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
    def is_held(self) -> bool:
        """Whether no more BLEU is lost than allowed."""
        return self.lost <= self.may_lose

    def rows(self) -> list[list[str]]:
        """Return the numbers as rows of a table with the `COLUMNS`."""
        plain, other = self.plain, self.other
        speedup = f"{plain.seconds / max(other.seconds, 1e-9):.2f}x"
        return [
            [plain.name, f"{plain.bleu:.2f}", "", f"{plain.sentences_per_second:,.1f}", ""],
            [
                other.name,
                f"{other.bleu:.2f}",
                f"{self.same:.1%}",
                f"{other.sentences_per_second:,.1f}",
                speedup,
            ],
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "lines": len(self.plain.lines),
            "systems": [self.plain.to_json(), self.other.to_json()],
            "same": self.same,
            "bleu_lost": self.lost,
            "bleu_may_lose": self.may_lose,
            "speedup": self.plain.seconds / max(self.other.seconds, 1e-9),
        }


@dataclass(frozen=True)
class ExportCheck:
    """What a check of an export found."""

    comparison: Comparison  # of the translations
    difference: float  # the largest between log-probabilities of a token of the same text

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {**self.comparison.to_json(), "log_prob_difference": self.difference}


def largest_difference(
    plain: Translator, other: Translator, source: Sequence[str], lines: int = 64
) -> float:
    """Return the largest difference of log-probabilities of tokens in equal translations.

    Args:
        plain: one way of translating.
        other: another one.
        source: raw lines.
        lines: how many of them are translated.
    """
    pairs = zip(
        plain.translate_nbest(source[:lines], 1),
        other.translate_nbest(source[:lines], 1),
        strict=True,
    )
    return max(
        (
            abs(a - b)
            for (ours, *_), (theirs, *_) in pairs
            if ours.tokens == theirs.tokens
            for a, b in zip(ours.token_log_probs, theirs.token_log_probs, strict=True)
        ),
        default=0.0,
    )


def compare_ways(
    plain: tuple[str, Translator],
    other: tuple[str, Translator],
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    progress: Progress,
) -> Comparison:
    """Translate a text in two ways, in turns, and score both.

    Args:
        plain: the name of a way, and the way.
        other: the same.
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
        for result, translator in ways:
            started = time.perf_counter()
            best = [nbest[0] for nbest in translator.translate_nbest(piece, 1)]
            result.seconds += time.perf_counter() - started
            result.lines += [each.text for each in best]
            result.tokens += sum(len(each.tokens) for each in best)
        ways.reverse()
        progress.advance("Comparing", begin + len(piece), len(source))
    language = plain[1].pipeline.target.language
    for result, translator in ways:
        result.bleu = corpus_bleu(
            result.lines,
            references,
            target_language=language,
            lowercase=translator.pipeline.target.lowercase,
        )
    results = {id(translator): result for result, translator in ways}
    return Comparison(results[id(plain[1])], results[id(other[1])])
