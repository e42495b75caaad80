"""Translations as text, with their scores and alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Args:
        text: raw text.
        score: the length-normalised log-probability, by which the n-best list is ranked.
        log_prob: sum of `token_log_probs`.
        tokens: the model's tokens, ``</s>`` last; none for an empty line.
        token_log_probs: the log-probability of each token given the tokens before it.
        words: the words before detokenisation.
        alignment: source and target words that belong together, in Pharaoh format; None unless
            alignments are requested.
        source_tokens: the model's source tokens, ``</s>`` last; None unless the grid is requested.
        grid: a joint model's weight of each source token when it predicts each token, rounded,
            [T, S]; None unless it is requested.
        parts: into how many parts the line was cut; None if it was translated as a whole.
    """

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    words: list[str]
    alignment: str | None = None
    source_tokens: Sequence[str] | None = None
    grid: Sequence[Sequence[float]] | None = None
    parts: int | None = None


@dataclass(frozen=True)
class ScoredLine:
    """A given translation: its tokens, ``</s>`` last, and the log-probability of each."""

    tokens: list[str]
    token_log_probs: list[float]
