"""Minimum Bayes risk: the translation that agrees best with all the others.

Of the candidates for a sentence, n-best or samples, the one with the highest expected utility is
chosen: u(h) = sum over candidates r of p(r) utility(h, r), the utility being sentence chrF or BLEU
(Eikema and Aziz 2020, Is MAP Decoding All You Need?). Samples weigh the same; the hypotheses of a
beam search by their probability, normalised over the list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jtrans.evaluation.scores import make_metric


def expected_utilities(
    texts: Sequence[str], log_probs: Sequence[float] | None, utility: str, target_language: str
) -> NDArray[np.float64]:
    """Return the expected utility of each candidate, 0 to 100, [n].

    Args:
        texts: the candidates.
        log_probs: those of the hypotheses of a search; None for samples.
        utility: ``chrf``, or ``bleu`` (of effective order, smoothed).
        target_language: chooses the tokeniser of BLEU.
    """
    metric = make_metric(utility, None, target_language=target_language)
    highest = max(log_probs or (), default=0.0)
    weight = [math.exp(value - highest) for value in log_probs] if log_probs else []
    shares = np.array(weight or [1.0] * len(texts), dtype=np.float64)
    shares /= shares.sum()
    distinct = list(dict.fromkeys(texts))
    place = [distinct.index(text) for text in texts]
    share = np.bincount(place, weights=shares).astype(np.float64)
    table = np.array([[metric.sentence_score(h, [r]).score for r in distinct] for h in distinct])
    expected: NDArray[np.float64] = table @ share
    return expected[place]
