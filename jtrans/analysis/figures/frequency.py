"""Accuracy and F-measure by training frequency (Figure 4, right).

docs/systems.md 11.3, and the F-measure of words by training frequency as compare-mt (Neubig et al.,
2019) defines it. Counts come from the training data of the run; no extra file is needed.
Both use one reference, as compare-mt does: the first, if a split has several.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.bins import AS_IN_PAPER, BINS, Binning, Bins
from jtrans.analysis.figures.position import (
    TEACHER_FORCED,
    accuracy_values,
    continues,
    token_hits,
)
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.figures.series import binned_figure, divide, pooled_series
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.text.vocabulary import SPECIALS, Vocabulary

WORD_STARTS = (1, 2, 3, 4, 5, 10, 100, 1000)  # compare-mt's


def frequency_figures(
    study: Study, binning: Binning = AS_IN_PAPER, *, with_accuracy: bool = True
) -> list[Figure | Table]:
    """Return accuracy of tokens and F-measure of words by training frequency.

    Raises:
        CorpusError: the runs have different target tokens, but accuracy is requested.
    """
    figures: list[Figure | Table] = []
    if with_accuracy:
        study.require_same_tokens("accuracies by training frequency")
        figures.append(_accuracy(study, binning))
    return [*figures, _f_measure(study, binning)]


def token_bins(vocabulary: Vocabulary) -> Bins:
    """Return the reference's bins: as wide as a fifth of the number of dictionary entries."""
    return Bins.equal(max(1, (len(vocabulary) - len(SPECIALS)) // BINS))


def _accuracy(study: Study, binning: Binning) -> Figure:
    vocabulary = study.with_model[0].runs[0].pipeline.target.vocabulary
    scores = study.with_model[0].teacher_forced
    frequency = np.array(vocabulary.counts)[scores.ids]
    is_counted = scores.ids >= len(SPECIALS)  # </s> and unknown tokens are skipped
    bins = binning.make(frequency[is_counted], token_bins(vocabulary), lowest=0)
    place = np.where(is_counted, bins.find(frequency), -1)
    note = (
        f"{TEACHER_FORCED} when the reference is forced, by their frequency in the training "
        "data; </s> and unknown tokens are left out."
    )
    if binning == AS_IN_PAPER:
        note += (
            " Bins as in the paper: as wide as a fifth of the size of the vocabulary, so that the "
            "first bin holds nearly all types. For bins with equal counts: --bins quantile."
        )
    note += study.text.only_first
    return binned_figure(
        study,
        accuracy_values(study, token_hits),
        place,
        bins.labels,
        sentence=scores.sentence,
        name="frequency",
        title="Teacher-forced accuracy by training frequency",
        question="Does a system predict rare tokens less well than frequent ones?",
        x_label="times in the training data",
        y_label="accuracy",
        note=note,
        count_label="tokens",
    )


def matches_by_bin(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    counts: Mapping[str, int],
    bins: Bins,
) -> NDArray[np.float64]:
    """Count words by sentence and bin: matched, in the hypothesis, in the reference.

    A word is matched as often as it occurs in both sentences; its bin is given by its training
    frequency, 0 for unknown words.

    Returns:
        [sentences, bins, 3].
    """
    vocabulary = sorted({word for line in (*hypotheses, *references) for word in line})
    places = bins.find([counts.get(word, 0) for word in vocabulary])
    place = dict(zip(vocabulary, places.tolist(), strict=True))
    sums = np.zeros((len(references), len(bins), 3))
    for row, hypothesis, reference in zip(sums, hypotheses, references, strict=True):
        given, expected = Counter(hypothesis), Counter(reference)
        for column, words in enumerate((given & expected, given, expected)):
            for word, number in words.items():
                row[place[word], column] += number
    return sums


def f_measure(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the F-measure of summed counts, [..., 3] -> [...]; nan where there are no words.

    Half the sum of precision and recall over their product is matches over the mean of both
    totals. Words of the bin on one side only give 0.
    """
    matched, given, expected = np.moveaxis(sums, -1, 0)
    return divide(2 * matched, given + expected)


def _f_measure(study: Study, binning: Binning) -> Figure:
    corpus = _training_corpus(study)
    side = corpus.pipeline.target
    words = study.words.like(side)
    counts = training_words(corpus)
    references = [words.split(line) for line in study.reference_lines]
    hypotheses = [
        [member.words_by(words) for member in subject.members] for subject in study.subjects
    ]
    if study.lowercase or side.lowercase:
        counts = _without_case(counts, chain(references, *chain(*hypotheses)))
    frequencies = np.array([counts[word] for line in references for word in line])
    bins = binning.make(frequencies, Bins.between(WORD_STARTS), lowest=0)
    matches = [
        [matches_by_bin(lines, references, counts, bins) for lines in seeds] for seeds in hypotheses
    ]
    totals = matches[0][0][:, :, 2]
    return Figure(
        name="frequency-f-measure",
        title="F-measure of words by training frequency",
        question="How well are rare and frequent words translated?",
        x_label="times in the training data",
        y_label="F-measure",
        bins=bins.labels,
        counts=totals.sum(axis=0).astype(int).tolist(),
        series=[
            pooled_series(study, subject, own, f_measure)
            for subject, own in zip(study.subjects, matches, strict=True)
        ],
        note="As in compare-mt: hypothesis words that match the reference, clipped; the bin is "
        f"that of the word's frequency in the training data of {corpus.name}."
        + words.note
        + study.text.only_first,
        count_label="reference words",
    )


def _without_case(counts: Mapping[str, int], lines: Iterable[Sequence[str]]) -> Counter[str]:
    """Return how often the words of some lines occur, in any case."""
    folded = Counter[str]()
    for word, number in counts.items():
        folded[word.lower()] += number
    return Counter({word: folded[word.lower()] for words in lines for word in words})


def training_words(corpus: PreparedCorpus) -> Counter[str]:
    """Count the target words of the training data, with subwords merged."""
    store, side = corpus.pairs("train").target, corpus.pipeline.target
    if not len(store):
        return Counter()
    ids = np.concatenate([store[index] for index in range(len(store))])
    tokens = side.vocabulary.tokens
    goes_on = np.array([continues(side, token) for token in tokens])[ids]
    is_whole = ~goes_on
    is_whole[1:] &= ~goes_on[:-1]  # the last subword of a longer word is not a word
    numbers = np.bincount(ids[is_whole & (ids >= len(SPECIALS))], minlength=len(tokens))
    counts = Counter({tokens[i]: int(numbers[i]) for i in np.flatnonzero(numbers)})
    rest = np.flatnonzero(~is_whole)
    pieces = [tokens[i] for i in ids[rest].tolist()]
    counts.update(word for word in side.merge(pieces) if word not in SPECIALS)
    return counts


def _training_corpus(study: Study) -> PreparedCorpus:
    """Return a corpus that a run was trained on, the same for any order of the runs.

    The corpora whose words are those of the study come first, then the largest. Without any, it is
    the corpus that the study is on.
    """
    folders = [Path(run.info.get("data") or study.corpus.folder) for run in study.runs]
    corpora = [PreparedCorpus.open(path) for path in folders if PreparedCorpus.exists(path)]
    if not corpora:
        return study.corpus

    def rank(corpus: PreparedCorpus) -> tuple[bool, int, str, str]:
        train, side = corpus.info["splits"]["train"], corpus.pipeline.target
        is_like = study.words.like(side) == study.words
        is_cased = study.lowercase or not side.lowercase
        texts, pipeline = json.dumps(train.get("sha256")), corpus.info["pipeline_sha256"]
        return is_like and is_cased, train["pairs"], texts, pipeline

    return max(corpora, key=rank)
