"""Word alignments as text, and their error rate against gold alignments.

Pharaoh format: a line per sentence, ``source-target`` pairs of word numbers from 0, ``0-0 1-2``.
"""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.analysis.attention.gold import GoldAlignment

WordAlignment = list[tuple[int, int]]  # of a sentence: (source word, target word)


def to_pharaoh(alignment: WordAlignment) -> str:
    """Return an alignment in Pharaoh format, by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(alignment))


def from_pharaoh(line: str) -> WordAlignment:
    """Parse the output of `to_pharaoh`."""
    return [(int(i), int(j)) for i, j in (pair.split("-") for pair in line.split())]


def error_rates(
    alignments: Sequence[WordAlignment], gold: Sequence[GoldAlignment | None]
) -> tuple[float | None, float | None, float | None]:
    """Return alignment error rate, precision and recall (Och and Ney, 2003); None for no data.

    ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``, precision over possible pairs, recall
    over sure ones. Sentences without gold are left out.
    """
    both = [(set(p), own) for p, own in zip(alignments, gold, strict=True) if own is not None]
    given = sum(len(pairs) for pairs, _ in both)
    sure = sum(len(reference.sure) for _, reference in both)
    in_sure = sum(len(pairs & reference.sure) for pairs, reference in both)
    in_possible = sum(len(pairs & reference.possible) for pairs, reference in both)
    return (
        1 - (in_sure + in_possible) / (given + sure) if given + sure else None,
        in_possible / given if given else None,
        in_sure / sure if sure else None,
    )
