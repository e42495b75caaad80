"""Corpus BLEU from the counts of sentences, and the tokenised BLEU of multi-bleu.perl.

`bleu_counts` returns sacreBLEU's counts of each sentence, `sacrebleu_of` the BLEU of summed counts,
`bleu_of` and `drawn_bleu_of` that of bins of sentences. `multi_bleu` scores words (BPE undone) as
papers do, and is comparable only with their tables.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from jtrans.evaluation.references import present
from jtrans.evaluation.scores import check_lines, make_metric

MAX_ORDER = 4
# hypothesis length, reference length, matches, n-grams, longest n-grams of the references
COLUMNS = 2 + 2 * MAX_ORDER + 1
# multi-bleu.perl lower-cases bytes, hence A-Z only
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def bleu_counts(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str,
    lowercase: bool,
) -> NDArray[np.int64]:
    """Return the BLEU counts of every sentence, [sentences, COLUMNS].

    The arguments are those of `scores.corpus_score`.
    """
    metric = make_metric("bleu", None, target_language=target_language, lowercase=lowercase)
    rows = []
    for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):
        score = metric.sentence_score(hypothesis, present(alternatives))
        expected = max(0, score.ref_len - MAX_ORDER + 1)
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals, expected])
    return np.array(rows, dtype=np.int64).reshape(-1, COLUMNS)


def sacrebleu_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return sacreBLEU's corpus BLEU of summed counts, [..., COLUMNS] -> [...].

    It is 0 where the translations have no 4-gram.
    """
    scores = [
        BLEU.compute_bleu(
            correct=row[2 : 2 + MAX_ORDER],
            total=row[2 + MAX_ORDER : -1],
            sys_len=int(row[0]),
            ref_len=int(row[1]),
            smooth_method="exp",
        ).score
        for row in counts.reshape(-1, COLUMNS).tolist()
    ]
    return np.array(scores, dtype=np.float64).reshape(counts.shape[:-1])


def bleu_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return corpus BLEU of the summed counts of bins, [..., COLUMNS] -> [...].

    It is nan ("no data") where neither side has a 4-gram: even perfect translations of such short
    sentences would score 0.
    """
    has_data = (counts[..., COLUMNS - 2 :] > 0).any(axis=-1)
    return np.where(has_data, sacrebleu_of(counts), np.nan)


def drawn_bleu_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return corpus BLEU of bins in drawn test sets, [..., COLUMNS] -> [...].

    Without a 4-gram it is 0 as in sacreBLEU, not nan as in `bleu_of`; it is nan only without any
    token. If few sentences of a bin have a 4-gram, many drawn sets have none, and an interval over
    the other sets alone would be too narrow.
    """
    has_tokens = (counts[..., :2] > 0).any(axis=-1)
    return np.where(has_tokens, sacrebleu_of(counts), np.nan)


def multi_bleu(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    *,
    lowercase: bool = False,
) -> BLEUScore:
    """Score words as multi-bleu.perl does: corpus BLEU-4 of the words as given, not smoothed.

    The score is 0 if any n-gram order has no match, and where the script would divide by zero,
    without any words on one side. As in the script, a blank line is a reference of no words, even
    beside other references.

    Args:
        hypotheses: the words of each line, BPE undone.
        references: reference sets, each as long as the hypotheses.
        lowercase: the script's ``-lc``, which turns A-Z into a-z and no other letters.

    Raises:
        CorpusError: no hypotheses, or numbers of lines that differ.
    """
    check_lines(hypotheses, references)

    numbers: dict[str, int] = {}  # they replace the words, which sacreBLEU may split further

    def joined(lines: Sequence[Sequence[str]]) -> list[str]:
        if lowercase:
            lines = [[word.translate(_ASCII_LOWER) for word in words] for words in lines]
        return [
            " ".join(str(numbers.setdefault(word, len(numbers))) for word in words)
            for words in lines
        ]

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score: BLEUScore = metric.corpus_score(
        joined(hypotheses), [joined(lines) for lines in references]
    )
    # rounding errors can raise the geometric mean of four precisions of 100 above 100
    score.score = min(score.score, 100.0)
    return score
