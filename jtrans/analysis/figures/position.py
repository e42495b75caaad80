"""How often the correct next token is the most probable, by target position (Figure 4, left).

The definition of the paper (docs/systems.md 11.1) counts BPE subwords and ``</s>``, and its late
bins contain only long sentences; of the other two figures one counts words, the other divides
sentences into fifths. If a split has several references, only the first is scored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.bins import AS_IN_PAPER, BINS, Binning, Bins
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.figures.series import binned_figure, with_ones
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study, Subject
from jtrans.text.alignments import word_numbers

GAP = 10  # width of a bin in positions
TEACHER_FORCED = "Share of reference tokens that the model finds most probable"
FIFTHS = ("first fifth", "second", "third", "fourth", "last fifth")


def position_figures(study: Study, binning: Binning = AS_IN_PAPER) -> list[Figure | Table]:
    """Return teacher-forced accuracy by position: of tokens, of words, and relative.

    Raises:
        CorpusError: the runs have different target tokens.
    """
    study.require_same_tokens("accuracies by position")
    return [_tokens(study, binning), *_words(study, binning)]


def accuracy_values(
    study: Study, hits: Callable[[Member], NDArray[np.bool_]]
) -> list[tuple[Subject, list[NDArray[np.float64]]]]:
    """Return hits and ones, whose `ratio` is the accuracy, per system and seed, [items, 2]."""
    return [(s, [with_ones(hits(member)) for member in s.run_members]) for s in study.with_model]


def token_hits(member: Member) -> NDArray[np.bool_]:
    """Return for every reference token whether the model finds it most probable, [tokens]."""
    return member.teacher_forced.hits


def _tokens(study: Study, binning: Binning) -> Figure:
    scores = study.with_model[0].teacher_forced
    bins = binning.make(scores.position, Bins.equal(GAP, shown_from=1))
    return binned_figure(
        study,
        accuracy_values(study, token_hits),
        bins.find(scores.position),
        bins.labels,
        sentence=scores.sentence,
        name="position",
        title="Teacher-forced accuracy by position",
        question="Does a system get worse towards the end of a sentence?",
        x_label="target position (tokens)",
        y_label="accuracy",
        note=f"{TEACHER_FORCED}, given the source and the reference tokens before them. As in the "
        "paper, tokens are BPE subwords and </s>; the later bins contain only long sentences. "
        "Unknown words of the reference count as correct where the model predicts <unk>."
        + study.text.only_first,
        count_label="tokens",
    )


def _words(study: Study, binning: Binning) -> list[Figure]:
    first = study.with_model[0].run_members[0]
    word = word_of_token(first)
    values = accuracy_values(study, lambda member: all_tokens_hit(member, word))
    lengths = np.bincount(first.teacher_forced.sentence[word_ends(word)], minlength=len(study))
    sentence = np.repeat(np.arange(len(study)), lengths)
    begins = np.cumsum(lengths) - lengths
    position = np.arange(len(sentence)) - np.repeat(begins, lengths)
    bins = binning.make(position, Bins.equal(GAP, shown_from=1))
    # by the middle of a word, so that a sentence is divided alike from either end
    fifth = (2 * position + 1) * BINS // (2 * np.repeat(lengths, lengths))
    return [
        binned_figure(
            study,
            values,
            bins.find(position),
            bins.labels,
            sentence=sentence,
            name="position-words",
            title="Teacher-forced accuracy by position, in words",
            question="Does a system get worse towards the end of a sentence, counted in words?",
            x_label="target position (words)",
            y_label="accuracy",
            note="A word counts as correct if all its subwords are, <unk> like any other; </s> is "
            "left out." + study.text.only_first,
            count_label="words",
        ),
        binned_figure(
            study,
            values,
            fifth,
            list(FIFTHS),
            sentence=sentence,
            name="position-relative",
            title="Teacher-forced accuracy by part of the sentence",
            question="Is the end of a sentence harder than its beginning, at any length?",
            x_label="part of the sentence",
            y_label="accuracy",
            note="Every sentence is divided into fifths, so that every bin covers short and long "
            f"sentences alike; words, without </s>.{study.text.only_first}",
            count_label="words",
        ),
    ]


def word_of_token(member: Member) -> NDArray[np.int64]:
    """Return the word of each reference token as a number, -1 for ``</s>``, [tokens]."""
    side = member.run.pipeline.target
    numbers: list[int] = []
    first = 0  # the number of the sentence's first word
    for pieces in member.reference_pieces:
        words = first + word_numbers(side, pieces)
        numbers += [*words.tolist(), -1]
        first = int(words[-1]) + 1 if len(words) else first
    return np.array(numbers, dtype=np.int64)


def word_ends(word: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each token is the last of its word, [tokens]; False for ``</s>``."""
    after = np.append(word[1:], -1)
    ends: NDArray[np.bool_] = (word >= 0) & (word != after)
    return ends


def all_tokens_hit(member: Member, word: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for every word whether all its tokens were hit, [words]."""
    inside = word >= 0
    missed = np.bincount(
        word[inside],
        weights=~member.teacher_forced.hits[inside],
        minlength=int(word.max(initial=-1)) + 1,
    )
    hit: NDArray[np.bool_] = missed == 0
    return hit
