"""The error rate of word alignments against gold alignments."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.analysis.attention.gold import GoldAlignment
from jtrans.decoding.word_alignments import WordAlignment


def error_rates(
    alignments: Sequence[WordAlignment], gold: Sequence[GoldAlignment | None]
) -> tuple[float | None, float | None, float | None]:
    """Return alignment error rate, precision and recall (Och and Ney, 2003); None for no data.

    ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``, precision over possible pairs, recall
    over sure ones. Sentences without gold are left out.
    """
    both = [(set(p), g) for p, g in zip(alignments, gold, strict=True) if g is not None]
    aligned = sum(len(pairs) for pairs, _ in both)
    sure = sum(len(reference.sure) for _, reference in both)
    in_sure = sum(len(pairs & reference.sure) for pairs, reference in both)
    in_possible = sum(len(pairs & reference.possible) for pairs, reference in both)
    return (
        1 - (in_sure + in_possible) / (aligned + sure) if aligned + sure else None,
        in_possible / aligned if aligned else None,
        in_sure / sure if sure else None,
    )
