"""Reproducible valid and test splits for a corpus without splits.

Which sentences are held out depends on their text alone, not on their order or number: a newer
release of the corpus gives nearly the same splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jtrans.corpora.parallel import ParallelText
from jtrans.files import text_digest

# Shorter target sentences reveal little about a system.
SHORTEST_WORDS = 3


def split_off(text: ParallelText, sizes: Mapping[str, int]) -> dict[str, ParallelText]:
    """Split a corpus into train and the splits of `sizes`.

    No sentence of either language is in two splits, ignoring case and punctuation. Of pairs that
    share a sentence, a held-out split gets the first that is long enough, and the others are left
    out. At most half of the sentences are held out.

    Returns:
        The splits, train first.
    """
    groups = _groups(text)
    unfilled = [name for name, size in sizes.items() for _ in range(size)]
    chosen: dict[str, list[int]] = {"train": [], **{name: [] for name in sizes}}
    for rank, members in enumerate(sorted(groups, key=lambda group: _rank(text, group))):
        long_enough = [i for i in members if len(text.target[i].split()) >= SHORTEST_WORDS]
        if unfilled and long_enough and rank < len(groups) // 2:
            chosen[unfilled.pop()].append(min(long_enough))
        else:
            chosen["train"].extend(members)
    return {
        name: ParallelText(
            [text.source[i] for i in sorted(members)],
            [text.target[i] for i in sorted(members)],
            text.origin,
            text.files,
            notes=text.notes if name == "train" else {},
        )
        for name, members in chosen.items()
    }


def _groups(text: ParallelText) -> list[list[int]]:
    """Return the positions of pairs that share a sentence, directly or through others."""
    leader = list(range(len(text)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for side in (text.source, text.target):
        first: dict[str, int] = {}
        for i, line in enumerate(side):
            leader[find(i)] = find(first.setdefault(_bare(line), i))
    groups: dict[int, list[int]] = {}
    for i in range(len(text)):
        groups.setdefault(find(i), []).append(i)
    return list(groups.values())


def _bare(line: str) -> str:
    return "".join(character for character in line.lower() if character.isalnum())


def _rank(text: ParallelText, group: Sequence[int]) -> str:
    keys = (f"{_bare(text.source[i])}\n{_bare(text.target[i])}" for i in group)
    return min(text_digest(key) for key in keys)
