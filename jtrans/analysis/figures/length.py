"""Length ratio and difference, and translation quality by source length (Figure 3 of the paper).

For files without their source, lengths are those of the reference. See docs/systems.md 11.3 and
11.4. The sentence score of the reference scripts is smoothed and on a scale of its own; corpus BLEU
of each bin complements it. All figures use all references of a split.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.bins import AS_IN_PAPER, Binning, Bins
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.figures.series import binned_figure, share_figure, with_ones
from jtrans.analysis.study.members import FileMember, Member
from jtrans.analysis.study.study import Study, Subject
from jtrans.evaluation.bleu import MAX_ORDER, bleu_counts, bleu_of, drawn_bleu_of
from jtrans.evaluation.scores import tokenizer_name

Words = Sequence[str]
GAP = 10  # width of a bin in words
# the lowest difference in words of every bin but the first, as in compare-mt
DIFFERENCES = (-20, -10, *range(-5, 7), 11, 21)
NO_FOUR_GRAMS = "BLEU has no data where no sentence or translation has four tokens."


def length_figures(study: Study, binning: Binning = AS_IN_PAPER) -> list[Figure | Table]:
    """Return length ratio and difference, and sentence score and BLEU by source length."""
    bins, place = length_bins(study, binning)
    return [
        _ratio_figure(study),
        _difference_figure(study),
        _score_figure(study, place, bins.labels),
        _bleu_figure(study, place, bins.labels),
    ]


def length_bins(study: Study, binning: Binning) -> tuple[Bins, NDArray[np.int64]]:
    """Return bins of lengths in words, and the bin of every sentence, [sentences]."""
    lengths = np.array([len(words) for words in study.text.length_side.words])
    bins = binning.make(lengths, Bins.equal(GAP))
    return bins, bins.find(lengths)


def length_note(study: Study) -> str:
    """Return a sentence that tells which reference decides the bin, if one does."""
    is_of_several = study.text.source is None and len(study.text.references) > 1
    return " Lengths are those of the first reference." if is_of_several else ""


def closest_length(length: int, references: Sequence[Words]) -> int:
    """Return the reference length nearest to a hypothesis length, the shorter one in ties."""
    return min((len(words) for words in references), key=lambda n: (abs(n - length), n))


def sentence_score(hypothesis: Words, references: Sequence[Words]) -> float:
    """Return the sentence score of the reference scripts, between 0 and 1.

    ``exp(1/4 sum_n ln((m_n + 1)/(l_n + 1)) + min(0, 1 - r/c))`` with the shortest reference as r;
    an empty line has one empty word, as in the scripts.
    """
    words = list(hypothesis) or [""]
    total = 0.0
    for order in range(1, MAX_ORDER + 1):
        limits: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            limits |= Counter(ngrams(list(reference) or [""], order))
        counts = Counter(ngrams(words, order))
        total += math.log(((counts & limits).total() + 1) / (counts.total() + 1))
    shortest = min(max(1, len(reference)) for reference in references)
    return math.exp(total / MAX_ORDER + min(0.0, 1.0 - shortest / len(words)))


def ngrams(words: Words, order: int) -> Iterator[tuple[str, ...]]:
    """Return the n-grams of a sentence, first word first."""
    return zip(*(words[start:] for start in range(order)), strict=False)


def _lengths(study: Study, member: Member | FileMember) -> NDArray[np.int64]:
    """Return the lengths of every hypothesis and of its closest reference, [sentences, 2]."""
    sizes = [len(words) for words in member.hypothesis_words]
    closest = map(closest_length, sizes, study.text.words_of_references)
    return np.column_stack([sizes, list(closest)])


def _ratio_figure(study: Study) -> Figure:
    return binned_figure(
        study,
        _of_members(study, partial(_lengths, study)),
        np.zeros(len(study), dtype=np.int64),
        [study.split],
        name="length-ratio",
        title="Length ratio",
        question="Are the translations as long as the references?",
        x_label="test set",
        y_label="hypothesis words / reference words",
        note="Words before BPE, summed over the test set, against the reference closest in length."
        f"{study.words.note}",
        kind="bars",
        baseline=1.0,
        highest=None,
        count_label="sentences",
    )


def _difference_figure(study: Study) -> Figure:
    def places(member: Member | FileMember) -> NDArray[np.int64]:
        lengths = _lengths(study, member)
        return np.searchsorted(DIFFERENCES, lengths[:, 0] - lengths[:, 1], side="right")

    inner = [
        str(start) if after == start + 1 else f"{start} to {after - 1}"
        for start, after in itertools.pairwise(DIFFERENCES)
    ]
    return share_figure(
        study,
        _of_members(study, places),
        [f"<{DIFFERENCES[0]}", *inner, f">{DIFFERENCES[-1] - 1}"],
        name="length-difference",
        title="Length difference",
        question="How many words longer or shorter than the reference are the translations?",
        x_label="hypothesis words minus reference words",
        note="Words before BPE, against the reference closest in length. The bins are those of "
        f"compare-mt.{study.words.note}",
    )


def _score_figure(study: Study, place: NDArray[Any], bins: list[str]) -> Figure:
    side = study.text.length_side.name

    def scores(member: Member | FileMember) -> NDArray[Any]:
        values = map(sentence_score, member.hypothesis_words, study.text.words_of_references)
        return with_ones(list(values))

    return binned_figure(
        study,
        _of_members(study, scores),
        place,
        bins,
        name="length-score",
        title=f"Sentence score by {side} length",
        question=f"How does the mean sentence score change with the length of the {side}?",
        x_label=f"{side} words",
        y_label="mean sentence score",
        note="As in the reference scripts of the paper: the mean of sentence BLEU with add-one "
        "smoothing. It favours short sentences and cannot be compared with corpus BLEU."
        + study.words.note
        + length_note(study),
        count_label="sentences",
    )


def _bleu_figure(study: Study, place: NDArray[Any], bins: list[str]) -> Figure:
    case = "lower-cased" if study.lowercase else "cased"
    side = study.text.length_side.name
    return binned_figure(
        study,
        [(subject, sentence_counts(study, subject)) for subject in study.subjects],
        place,
        bins,
        score=bleu_of,
        drawn_score=drawn_bleu_of,
        name="length-bleu",
        title=f"BLEU by {side} length",
        question="How good is each system on short and on long sentences?",
        x_label=f"{side} words",
        y_label="BLEU",
        note="Corpus BLEU of the sentences of each bin (sacreBLEU, tokenizer "
        f"{tokenizer_name(study.target_language)}, {case}). {NO_FOUR_GRAMS}{length_note(study)}",
        digits=1,
        highest=100.0,
        count_label="sentences",
    )


def sentence_counts(study: Study, subject: Subject) -> list[NDArray[np.int64]]:
    """Return the BLEU counts of every sentence, per seed, [sentences, COLUMNS] of `bleu`."""
    return [
        bleu_counts(
            member.hypotheses,
            study.text.references,
            target_language=study.target_language,
            lowercase=study.lowercase,
        )
        for member in subject.members
    ]


def _of_members(
    study: Study, measure: Callable[[Member | FileMember], NDArray[Any]]
) -> list[tuple[Subject, list[NDArray[Any]]]]:
    """Return every system with the measurements of each seed's sentences."""
    return [
        (subject, [measure(member) for member in subject.members]) for subject in study.subjects
    ]
