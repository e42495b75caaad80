"""Cleaning of training text: which pairs stay, and how many went for which reason.

Works on segmented lines (words with single spaces between, as the model will see them), like
the Moses cleaner that published corpora went through. Validation and test text is never
cleaned: its lines must stay beside their references.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# In the order in which they are looked at: a pair counts for the first that applies.
REASONS = ("empty", "too long", "ratio", "duplicate", "in valid/test")


@dataclass(frozen=True)
class Rules:
    """What a training pair must satisfy.

    Attributes:
        max_length: words allowed on either side.
        max_ratio: how many times longer one side may be than the other; exactly this many
            times is allowed, as in the Moses cleaner.
        deduplicate: whether a pair seen before (both sides) is dropped.
        drop_leaked: whether pairs that also stand in valid or test (both sides) are dropped.
            A source that occurs there with another translation stays: short everyday
            sentences ("Thank you.") belong to any training text.
    """

    max_length: int = 175
    max_ratio: float = 1.5
    deduplicate: bool = True
    drop_leaked: bool = True


@dataclass(frozen=True)
class Cleaning:
    """What cleaning decided.

    Attributes:
        kept: positions of the pairs that stay, rising.
        dropped: how many pairs went, by reason, all reasons listed.
    """

    kept: list[int] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))


def clean(
    source: Sequence[str],
    target: Sequence[str],
    *,
    rules: Rules,
    held_out: Iterable[tuple[str, str]] = (),
) -> Cleaning:
    """Decide which training pairs stay.

    Args:
        source: segmented source lines.
        target: segmented target lines, as many.
        rules: what to ask of a pair.
        held_out: segmented pairs of valid and test.
    """
    leaked = set(held_out) if rules.drop_leaked else set()
    seen: set[tuple[str, str]] = set()
    cleaning = Cleaning()
    for i, pair in enumerate(zip(source, target, strict=True)):
        reason = _shape_reason(*pair, rules)
        if reason is None and rules.deduplicate:
            if pair in seen:
                reason = "duplicate"
            seen.add(pair)
        if reason is None and pair in leaked:
            reason = "in valid/test"
        if reason is None:
            cleaning.kept.append(i)
        else:
            cleaning.dropped[reason] += 1
    return cleaning


def _shape_reason(source: str, target: str, rules: Rules) -> str | None:
    if not source or not target:
        return "empty"
    source_length = source.count(" ") + 1
    target_length = target.count(" ") + 1
    if max(source_length, target_length) > rules.max_length:
        return "too long"
    # a quotient of whole numbers is rounded like the limit: 11/10 is not more than 1.1
    longer, shorter = max(source_length, target_length), min(source_length, target_length)
    return "ratio" if longer / shorter > rules.max_ratio else None
