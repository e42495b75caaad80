"""Checks that two sides have equal line counts, and guesses where the pairing breaks if not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from jtrans.errors import CorpusError, how_many

# The upper limit of a pair's length cost (difference of logarithms).
MOST_LENGTH_COST = 2.0
# The cost of different numbers, and of different final punctuation.
OTHER_NUMBERS, OTHER_END = 1.0, 0.5

_DIGITS = re.compile(r"[0-9]+")


def check_counts(
    source: Sequence[str], target: Sequence[str], names: tuple[str, str], unit: str = "line"
) -> None:
    """Check that two sides, called `names`, can be paired line by line, or by another `unit`.

    Raises:
        CorpusError: the counts differ, or both are empty.
    """
    if len(source) != len(target):
        raise CorpusError(
            f"{names[0]} has {how_many(len(source), unit)}, {names[1]} has {len(target):,}: "
            f"{unit} i of one must be the translation of {unit} i of the other; "
            + _guess(source, target, names, unit),
            hint="compare the two there, and recreate both from the same original",
            kind="corpus.line-counts",
        )
    if not source:
        raise CorpusError(
            f"{names[0]} and {names[1]} are empty",
            hint="choose files with one sentence per line",
            kind="corpus.empty",
        )


def probable_break(longer: Sequence[str], shorter: Sequence[str]) -> int:
    """Guess after how many lines the pairing breaks.

    It assumes one gap in `shorter`, before which line i belongs to line i of `longer`, and after
    which to line i + the difference of the counts. The gap is probably where the pairs agree best
    in their lengths, in the numbers they contain, and in whether they end in "?" or "!".
    """
    gap, pairs = len(longer) - len(shorter), len(shorter)
    if not pairs:
        return 0
    cost = np.concatenate([[0.0], np.cumsum(_disagreement(longer, shorter, 0))])
    cost[:-1] += np.cumsum(_disagreement(longer, shorter, gap)[::-1])[::-1]
    return int(pairs - np.argmin(cost[::-1]))


def _disagreement(longer: Sequence[str], shorter: Sequence[str], shift: int) -> NDArray[np.float64]:
    """Return how badly line i of `shorter` agrees with line i + `shift` of `longer`, [lines]."""
    lengths, partners = _marks(shorter, len), _marks(longer, len)
    part = slice(shift, shift + len(lengths))
    usual = np.log((partners.sum() + 1) / (lengths.sum() + 1))
    length_cost = np.abs(np.log((partners[part] + 1) / (lengths + 1)) - usual)
    cost: NDArray[np.float64] = np.minimum(length_cost, MOST_LENGTH_COST)
    cost += OTHER_NUMBERS * (_marks(longer, _numbers)[part] != _marks(shorter, _numbers))
    cost += OTHER_END * (_marks(longer, _end)[part] != _marks(shorter, _end))
    return cost


def _guess(source: Sequence[str], target: Sequence[str], names: tuple[str, str], unit: str) -> str:
    sides = sorted(zip((source, target), names, strict=True), key=lambda side: len(side[0]))
    (shorter, other), (longer, name) = sides
    intact = probable_break(longer, shorter)
    extra = len(longer) - len(shorter)
    if intact == len(shorter):
        return (
            f"judging by their contents, the end is missing: {other} from {unit} {intact + 1:,} on"
        )
    first = f"{unit} {intact + 1:,}"
    missing = first if extra == 1 else f"{unit}s {intact + 1:,} to {intact + extra:,}"
    return (
        f"judging by their contents, the pairing probably breaks at {first} "
        f"({missing} of {name} missing in {other})"
    )


def _marks(lines: Sequence[str], mark: Callable[[str], int]) -> NDArray[np.int64]:
    return np.fromiter((mark(line) for line in lines), np.int64, len(lines))


def _numbers(line: str) -> int:
    """Return a digest of the numbers in a line, the same for any order."""
    numbers = _DIGITS.findall(line)
    return zlib.crc32(" ".join(sorted(numbers)).encode("utf-8")) if numbers else 0


def _end(line: str) -> int:
    return next((i for i, ends in enumerate(("?？", "!！"), start=1) if line[-1:] in ends), 0)
