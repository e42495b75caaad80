"""Cleaning of training text: which pairs stay, and how many are dropped for each reason.

Works on segmented lines (words with single spaces between, as the model will see them), like
the Moses cleaner, which was applied to published corpora. Validation and test text is never
cleaned: its lines must stay aligned with their references.

Each pair is first judged on its own (`shape_reason`), in any process and in any order. Repetition,
which depends on other pairs, is then decided for all pairs together (`decide`), by 16-byte digests,
so that millions of pairs fit into memory; leakage is known by then (`jtrans.corpora.overlap`).
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jtrans.files import short_digest
from jtrans.text.language import is_wrong_script

# In the order in which they are tried: a pair is counted under the first that applies.
REASONS = (
    "empty",
    "too long",
    "ratio",
    "identical",
    "wrong script",
    "duplicate",
    "in valid/test",
)
# The ratio limit of the IWSLT14 scripts. Many corpora are cleaned with it, and it is too strict for
# most: Vietnamese has 1.4 words for an English one.
STRICT_RATIO = 1.5
# The number of a reason in arrays; 0 is none.
REASON_CODES: dict[str | None, int] = {reason: i for i, reason in enumerate((None, *REASONS))}


@dataclass(frozen=True)
class Rules:
    """Conditions for training pairs."""

    max_length: int = 175  # words allowed on either side (of `units_per_word` units each)
    # how many times longer one side may be than the other; exactly this many times is allowed, as
    # in the Moses cleaner
    max_ratio: float = 3.0
    deduplicate: bool = True  # whether to drop a pair seen before (both sides)
    # whether to drop pairs whose source, target or both are also in valid or test, ignoring case,
    # punctuation and spaces. By default a source that occurs there with another translation stays:
    # short everyday sentences ("Thank you.") belong in any training text
    drop_leaked: Literal["pair", "source", "target", False] = "pair"
    # whether to drop pairs whose target equals their source, however the two are segmented:
    # untranslated text teaches copying
    drop_identical: bool = False
    # whether to drop pairs with a side that has letters, but none of its language's script
    # (`jtrans.text.language`)
    drop_wrong_script: bool = False

    @property
    def max_characters(self) -> int:
        """The most characters of a line, however few words it has: some lines have no spaces."""
        return max(10_000, 40 * self.max_length)


def shape_reason(
    source: str,
    target: str,
    rules: Rules,
    languages: tuple[str, str] = ("", ""),
    units_per_word: tuple[int, int] = (1, 1),
) -> str | None:
    """Return the reason to drop a segmented pair, judged on its own; None if it stays.

    `units_per_word`: into how many units each side's segmenter cuts an ordinary word.
    """
    if not source or not target:
        return "empty"
    most_source, most_target = (rules.max_length * units for units in units_per_word)
    if source.count(" ") >= most_source or target.count(" ") >= most_target:
        return "too long"
    if max(len(source), len(target)) > rules.max_characters:
        return "too long"
    if is_unlike(source, target, rules.max_ratio, units_per_word):
        return "ratio"
    if rules.drop_identical and _bare_text(source) == _bare_text(target):
        return "identical"
    if rules.drop_wrong_script and (
        is_wrong_script(source, languages[0]) or is_wrong_script(target, languages[1])
    ):
        return "wrong script"
    return None


def _bare_text(line: str) -> str:
    """Return a segmented line without spaces and escapes, in which segmenters differ."""
    line = html.unescape(line) if "&" in line else line
    return line.replace(" ", "").replace("▁", "")  # a space, where characters are segmented


def is_unlike(source: str, target: str, max_ratio: float, units_per_word: tuple[int, int]) -> bool:
    """Return whether one side has more than `max_ratio` times the words of the other."""
    per_source, per_target = units_per_word
    words = (source.count(" ") + 1) * per_target, (target.count(" ") + 1) * per_source
    # the quotient of integers is rounded like the limit: 11/10 is not more than 1.1
    return max(words) / min(words) > max_ratio


def pair_keys(pairs: Iterable[tuple[str, str]]) -> NDArray[np.uint64]:
    """Return a digest of each segmented pair as two numbers, [pairs, 2]."""
    digests = [short_digest(f"{source}\n{target}".encode()) for source, target in pairs]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def decide(
    reasons: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    *,
    rules: Rules,
    leaked: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Decide for all training pairs together which of them stay.

    Args:
        reasons: the result of `shape_reason` for each pair, as `REASON_CODES`, [pairs].
        keys: `pair_keys` of the pairs, [pairs, 2].
        rules: what a pair must satisfy.
        leaked: whether a pair is also in valid or test, [pairs]; None if that does not matter.

    Returns:
        Which pairs stay, [pairs], and how many were dropped for each reason.
    """
    reasons = reasons.copy()
    if rules.deduplicate:
        good = np.flatnonzero(reasons == 0)
        order = good[np.lexsort((keys[good, 1], keys[good, 0]))]  # stable: the first stays first
        repeats = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
        reasons[order[1:][repeats]] = REASON_CODES["duplicate"]
    if leaked is not None:
        reasons[(reasons == 0) & leaked] = REASON_CODES["in valid/test"]
    counts = np.bincount(reasons, minlength=len(REASON_CODES)).tolist()
    return reasons == 0, {reason: counts[REASON_CODES[reason]] for reason in REASONS}
