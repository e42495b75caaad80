"""Checking that two sides have as many lines, and guessing where they came apart if not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jtrans.errors import CorpusError

# More than this factor apart (natural logarithm), a pair is simply wrong: how wrong says nothing.
WRONG = 2.0


def check_counts(source: Sequence[str], target: Sequence[str], names: tuple[str, str]) -> None:
    """Refuse two sides that cannot be pairs line by line.

    Args:
        source: source lines.
        target: target lines.
        names: what to call the two, usually their files.

    Raises:
        CorpusError: the counts differ, or both are empty.
    """
    if len(source) != len(target):
        raise CorpusError(
            f"{names[0]} has {len(source):,} lines, {names[1]} has {len(target):,}: "
            "line i of one must be the translation of line i of the other; "
            + _guess(source, target, names),
            hint="compare the two there, and make them again from the same source",
            kind="corpus.line-counts",
        )
    if not source:
        raise CorpusError(
            f"{names[0]} and {names[1]} are empty",
            hint="choose files with one sentence per line",
            kind="corpus.empty",
        )


def probable_break(longer: Sequence[str], shorter: Sequence[str]) -> int:
    """Guess after how many lines two sides come apart.

    Supposes one gap: up to it line i belongs to line i, behind it to line i + the difference
    of the counts. Where that makes the lengths of the pairs agree best, the gap probably is.
    """
    a, b = _lengths(longer), _lengths(shorter)
    gap, pairs = len(a) - len(b), len(b)
    if not pairs:
        return 0
    usual = np.log((a.sum() + 1) / (b.sum() + 1))
    straight = np.minimum(np.abs(np.log((a[:pairs] + 1) / (b + 1)) - usual), WRONG)
    shifted = np.minimum(np.abs(np.log((a[gap:] + 1) / (b + 1)) - usual), WRONG)
    cost = np.concatenate([[0.0], np.cumsum(straight)])
    cost[:-1] += np.cumsum(shifted[::-1])[::-1]
    return int(pairs - np.argmin(cost[::-1]))


def _guess(source: Sequence[str], target: Sequence[str], names: tuple[str, str]) -> str:
    if len(source) > len(target):
        longer, shorter, name, other = source, target, names[0], names[1]
    else:
        longer, shorter, name, other = target, source, names[1], names[0]
    good = probable_break(longer, shorter)
    extra = len(longer) - len(shorter)
    if good == len(shorter):
        return f"by the lengths of the lines, the end is missing: line {good + 1:,} on of {other}"
    lines = f"line {good + 1:,}" if extra == 1 else f"lines {good + 1:,} to {good + extra:,}"
    return (
        f"by the lengths of the lines, the pairing probably breaks at line {good + 1:,} "
        f"({lines} of {name} missing in {other})"
    )


def _lengths(lines: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.fromiter((len(line) for line in lines), np.float64, len(lines))
