"""sacreBLEU's BLEU as counts per sentence, so that any set of sentences can be scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.evaluation.scores import MAX_ORDER, tokenizer_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = 2 + 2 * MAX_ORDER  # hypothesis length, reference length, matches, n-grams


def bleu_counts(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str,
    lowercase: bool,
) -> NDArray[np.int64]:
    """Return what BLEU counts in every sentence, [sentences, COLUMNS].

    Args:
        hypotheses: raw text.
        references: reference sets, each as long.
        target_language: decides the tokenizer.
        lowercase: compare without case.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(
        lowercase=lowercase,
        tokenize=tokenizer_name(target_language),
        force=True,
        effective_order=True,  # changes no count, and keeps sentence_score from warning
    )
    rows = []
    for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):
        found = metric.sentence_score(hypothesis, alternatives)
        rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    return np.array(rows, dtype=np.int64).reshape(-1, COLUMNS)


def bleu_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return corpus BLEU of summed counts, [..., COLUMNS] -> [...]; nan where there are none."""
    from sacrebleu.metrics.bleu import BLEU

    flat = counts.reshape(-1, COLUMNS)
    scores = np.full(len(flat), np.nan)
    for number, row in enumerate(flat.tolist()):
        if row[1] > 0 or row[0] > 0:
            scores[number] = BLEU.compute_bleu(
                correct=row[2 : 2 + MAX_ORDER],
                total=row[2 + MAX_ORDER :],
                sys_len=int(row[0]),
                ref_len=int(row[1]),
                smooth_method="exp",
            ).score
    return scores.reshape(counts.shape[:-1])
