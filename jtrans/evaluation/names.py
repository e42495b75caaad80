"""Unique names of systems and of groups of systems.

A system is shown under its own name, systems of the same name under as much of their paths as
differs. Runs that differ only by seed are named after the words that their names share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count, takewhile
from pathlib import Path
from unicodedata import normalize

from jtrans.errors import usage_error

MOST_MEMBERS = 3  # names to list; of more, only the first and the last
_SEPARATORS = re.compile(r"([-_./ @]+)")


def distinct_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return the names, repeated ones replaced by the shortest distinct endings of their paths.

    Args:
        names: the names of runs or files.
        paths: their paths.

    Raises:
        ConfigError: a path is given twice.
    """
    real = [path.resolve() for path in paths]
    for name, path in zip(names, real, strict=True):
        if real.count(path) > 1:
            raise usage_error(
                f"{name} is given twice",
                "name every system once; systems are compared with each other",
            )
    # accented letters look the same composed and decomposed
    names = [normalize("NFC", name) for name in names]
    parts = [[normalize("NFC", part) for part in path.absolute().parts] for path in paths]
    lengths = [0] * len(names)  # number of path parts to show; 0: the name itself
    while True:
        shown = [
            "/".join(path_parts[-length:]).replace("//", "/") if length else name
            for name, path_parts, length in zip(names, parts, lengths, strict=True)
        ]
        again = [
            number
            for number, name in enumerate(shown)
            if shown.count(name) > 1 and lengths[number] < len(parts[number])
        ]
        if not again:
            return _numbered(shown)
        for number in again:
            lengths[number] = max(lengths[number], names[number].count("/") + 1) + 1


def check_references(references: Sequence[Path], hypotheses: Sequence[Path]) -> str | None:
    """Refuse references that are given twice; return a warning if a hypothesis is a reference.

    Raises:
        ConfigError: a file of references is given twice.
    """
    real = [path.resolve() for path in references]
    for path, resolved in zip(references, real, strict=True):
        if real.count(resolved) > 1:
            raise usage_error(f"{path} is given twice", "name every set of references once")
    same = [str(path) for path in hypotheses if path.resolve() in real]
    return f"{same[0]} is given as --hyp and as --ref: it is compared with itself" if same else None


def group_names(groups: Sequence[Sequence[str]], seeds: Sequence[Sequence[int]]) -> list[str]:
    """Return a name, with the seeds, for every group of systems that differ only by seed.

    A group is named after the words that the names of its members share (``base-11``, ``base-12``:
    ``base (seeds 11, 12)``). If they share none, or if these words also name another system, the
    members are listed. A system on its own keeps its name.

    Args:
        groups: the names of each group's members, all different.
        seeds: the seeds of each group's members.
    """
    shared = [_shared(names) for names in groups]
    labels = []
    for number, (names, group_seeds) in enumerate(zip(groups, seeds, strict=True)):
        others = [
            other
            for place, members in enumerate(groups)
            for other in (shared[place], *members)
            if place != number
        ]
        name = shared[number]
        if not name or any(f"{other}/".startswith(f"{name}/") for other in others):
            name = _listed(names)
        labels.append(names[0] if len(names) == 1 else f"{name} (seeds {_ranges(group_seeds)})")
    return _numbered(labels)


def file_names(names: Sequence[str]) -> list[str]:
    """Return distinct file names for systems, also for ``a/b`` beside ``a-b``."""
    return _numbered([name.replace("/", "-") for name in names])


def _shared(names: Sequence[str]) -> str:
    """Return the words that all names begin and end with; empty if there are none."""
    words = [_SEPARATORS.split(name) for name in names]
    begin = _common(words)
    rest = min(map(len, words)) - len(begin)
    end = _common([parts[::-1] for parts in words])[:rest][::-1]
    if begin and end:
        return f"{''.join(begin)}…{''.join(end)}"
    shared = "".join(begin or end).strip("-_./ ")
    return re.sub(r"[-_./ ]+seed$", "", shared)  # base/seed-1, base/seed-2: base


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the items that all lists begin with."""
    same = takewhile(lambda items: len(set(items)) == 1, zip(*lists, strict=False))
    return [items[0] for items in same]


def _listed(names: Sequence[str]) -> str:
    shown = names if len(names) <= MOST_MEMBERS else [names[0], "…", names[-1]]
    return "+".join(shown)


def _ranges(numbers: Sequence[int]) -> str:
    """Return the numbers in order; as ``1–3`` if they are three or more in a row."""
    ordered = sorted(numbers)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}–{ordered[-1]}"
    return ", ".join(map(str, ordered))


def _numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repeated ones."""
    result: list[str] = []
    for name in names:
        numbers = (f"{name} ({number})" for number in count(2))
        result.append(name if name not in result else next(n for n in numbers if n not in result))
    return result
