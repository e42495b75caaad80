"""Cleaning of text in memory, for tests of the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jtrans.corpora.overlap import keys_by_unit, sentence_keys
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
    leaked = None
    if rules.drop_leaked:
        other = list(held_out)
        sides = (sentence_keys(source), sentence_keys(target))
        others = (sentence_keys(pair[side] for pair in other) for side in (0, 1))
        unit = rules.drop_leaked
        leaked = np.isin(keys_by_unit(*sides)[unit], keys_by_unit(*others)[unit])
    codes = np.array(reasons, np.uint8)
    mask, dropped = decide(codes, pair_keys(pairs), rules=rules, leaked=leaked)
    return Cleaning(np.flatnonzero(mask).tolist(), dropped)
