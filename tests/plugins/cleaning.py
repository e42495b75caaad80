"""Cleaning of text in memory, for tests of the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jtrans.preparation.clean import REASON_CODES, Rules, decide, pair_keys, shape_reason


class Cleaning(NamedTuple):
    """Positions of the pairs that stay, and how many were dropped, by reason."""

    kept: list[int]
    dropped: dict[str, int]


def clean(
    source: Sequence[str],
    target: Sequence[str],
    *,
    rules: Rules,
    held_out: Iterable[tuple[str, str]] = (),
) -> Cleaning:
    """Decide which segmented training pairs stay."""
    pairs = list(zip(source, target, strict=True))
    reasons = [REASON_CODES[shape_reason(*pair, rules)] for pair in pairs]
    keys, other_keys = pair_keys(pairs), pair_keys(held_out)
    mask, dropped = decide(np.array(reasons, np.uint8), keys, rules=rules, held_out=other_keys)
    return Cleaning(np.flatnonzero(mask).tolist(), dropped)
