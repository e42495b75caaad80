"""Accuracy and F-measure by training frequency (Figure 4, right).

Accuracy as in docs/systems.md 11.2, F-measure of words as compare-mt (Neubig et al., 2019) defines
it. Words are counted when a corpus is prepared; the vocabulary has the counts of tokens. Both use
one reference, as compare-mt does: the first, if a split has several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.bins import AS_IN_PAPER, BINS, Binning, Bins
from jtrans.analysis.figures.position import TEACHER_FORCED, accuracy_values, token_hits
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.figures.series import binned_figure, divide, pooled_series
from jtrans.analysis.study.study import Study, Subject
from jtrans.analysis.study.training_words import training_words_of
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
    if with_accuracy and study.with_model:
        study.require_same_tokens("accuracies by training frequency")
        figures.append(_accuracy(study, binning))
    return [*figures, _f_measure(study, binning)]


def token_bins(vocabulary: Vocabulary) -> Bins:
    """Return the bins of the reference scripts: each covers a fifth of the vocabulary's size."""
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

    A word matches as often as it occurs in both sentences. Its training frequency, 0 for unknown
    words, gives its bin.

    Returns:
        [sentences, bins, 3].
    """
    vocabulary = sorted({word for line in (*hypotheses, *references) for word in line})
    places = bins.find([counts.get(word, 0) for word in vocabulary])
    place = dict(zip(vocabulary, places.tolist(), strict=True))
    sums = np.zeros((len(references), len(bins), 3))
    for row, hypothesis, reference in zip(sums, hypotheses, references, strict=True):
        written, expected = Counter(hypothesis), Counter(reference)
        for column, words in enumerate((written & expected, written, expected)):
            for word, number in words.items():
                row[place[word], column] += number
    return sums


def f_measure(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the F-measure of summed counts, [..., 3] -> [...]; nan where there are no words.

    The harmonic mean of precision and recall is the matches over the mean of both totals. It is 0
    if only one side has words of the bin.
    """
    matched, written, expected = np.moveaxis(sums, -1, 0)
    return divide(2 * matched, written + expected)


def f_measure_figure(
    study: Study,
    subjects: Sequence[Subject],
    sums: Sequence[Sequence[NDArray[np.float64]]],
    bins: list[str],
    **words: Any,
) -> Figure:
    """Return a figure of the F-measure by bin, without data where the references have no word.

    Args:
        study: the study of the systems.
        subjects: some or all of its systems.
        sums: per system and seed: matched, written and expected items, [sentences, bins, 3].
        bins: their labels.
        words: the other fields of the figure: its name, title, question, labels and note.
    """
    expected = sums[0][0][:, :, 2].sum(axis=0)

    def of_reference_words(counted: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(expected > 0, f_measure(counted), np.nan)

    series = [
        pooled_series(study, subject, seeds, of_reference_words)
        for subject, seeds in zip(subjects, sums, strict=True)
    ]
    counts = expected.astype(int).tolist()
    return Figure(bins=bins, counts=counts, series=series, y_label="F-measure", **words)


def _f_measure(study: Study, binning: Binning) -> Figure:
    training = training_words_of(study)
    words, counts = training.words, training.counts
    references = [words.split(line) for line in study.reference_lines]
    hypotheses = [
        [member.words_by(words) for member in subject.members] for subject in study.subjects
    ]
    frequencies = np.array([counts[word] for line in references for word in line])
    bins = binning.make(frequencies, Bins.between(WORD_STARTS), lowest=0)
    matches = [
        [matches_by_bin(lines, references, counts, bins) for lines in seeds] for seeds in hypotheses
    ]
    return f_measure_figure(
        study,
        study.subjects,
        matches,
        bins.labels,
        name="frequency-f-measure",
        title="F-measure of words by training frequency",
        question="How well are rare and frequent words translated?",
        x_label="times in the training data",
        note="As in compare-mt: hypothesis words that match the reference, clipped; the bin is "
        f"that of the word's frequency in the training data of {training.corpus}."
        + training.note
        + words.note
        + study.text.only_first,
        count_label="reference words",
    )
