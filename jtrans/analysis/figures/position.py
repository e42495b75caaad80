"""How often the right next token is the most probable one, by target position (Figure 4, left).

docs/systems.md 11.2. The reference definition counts BPE pieces and ``</s>``, and its late bins
hold long sentences only; the two other figures count words, and divide sentences into fifths.
Where a split has several references, the first is scored and the others are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.figures.bins import BINS, Binning, Bins
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.figures.series import binned_series
from jtrans.analysis.figures.words import word_numbers
from jtrans.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtrans.analysis.study.members import Member
    from jtrans.analysis.study.study import Study

GAP = 10  # positions of a bin
TEACHER_FORCED = "Share of reference tokens that the model finds most probable"
FIFTHS = ("first fifth", "second", "third", "fourth", "last fifth")


def position_figures(study: Study, binning: Binning | None = None) -> list[Figure | Table]:
    """Return teacher-forced accuracy by position: of tokens, of words, and relative.

    Raises:
        CorpusError: the runs have different target tokens, or there is no run.
    """
    require_models(study, "accuracies by position")
    binning = binning or Binning()
    return [_tokens(study, binning), *_words(study, binning)]


def require_models(study: Study, measurement: str) -> None:
    """Refuse what needs models with the same target tokens.

    Raises:
        CorpusError: saying what is missing.
    """
    if not study.with_model:
        raise CorpusError(
            f"{measurement} need a run, not only files of translations", hint="name a RUN"
        )
    study.require_same_tokens(measurement)


def accuracy_figure(
    study: Study,
    hits: Sequence[Sequence[NDArray[Any]]],
    sentence: NDArray[Any],
    place: NDArray[Any],
    **words: Any,
) -> Figure:
    """Return the share of hits in every bin.

    Args:
        study: the systems.
        hits: per system and seed, of every item.
        sentence: the sentence of every item.
        place: the bin of every item, -1 to leave it out.
        words: the rest of the figure, ``bins`` among it.
    """
    values = [
        (subject, [np.column_stack([own, np.ones(len(own))]) for own in members])
        for subject, members in zip(study.with_model, hits, strict=True)
    ]
    bins = len(words["bins"])
    return Figure(
        y_label="accuracy",
        counts=np.bincount(place[place >= 0], minlength=bins).tolist(),
        series=binned_series(study, values, place, bins, sentence=sentence),
        **words,
    )


def token_hits(study: Study) -> list[list[NDArray[Any]]]:
    """Return the hits of every token, per system and seed."""
    return [[member.teacher_forced.hits for member in s.run_members] for s in study.with_model]


def _tokens(study: Study, binning: Binning) -> Figure:
    scores = study.with_model[0].teacher_forced
    bins = binning.make(scores.position, Bins.equal(GAP, shown_from=1))
    return accuracy_figure(
        study,
        token_hits(study),
        scores.sentence,
        bins.find(scores.position),
        name="position",
        title="Teacher-forced accuracy by position",
        question="Does a system get worse towards the end of a sentence?",
        x_label="target position (tokens)",
        bins=bins.labels,
        note=f"{TEACHER_FORCED}, given the source and the reference tokens before them. As in the "
        "paper, tokens are BPE pieces and </s> counts; the later bins hold long sentences only."
        + study.text.only_first,
        count_label="tokens",
    )


def _words(study: Study, binning: Binning) -> list[Figure]:
    first = study.with_model[0].run_members[0]
    word = word_of_token(first)
    hits = [[_all_hit(member, word) for member in s.run_members] for s in study.with_model]
    lengths = np.bincount(first.teacher_forced.sentence[word_ends(word)], minlength=len(study))
    sentence = np.repeat(np.arange(len(study)), lengths)
    begins = np.cumsum(lengths) - lengths
    position = np.arange(len(sentence)) - np.repeat(begins, lengths)
    bins = binning.make(position, Bins.equal(GAP, shown_from=1))
    fifth = position * BINS // np.maximum(np.repeat(lengths, lengths), 1)
    return [
        accuracy_figure(
            study,
            hits,
            sentence,
            bins.find(position),
            name="position-words",
            title="Teacher-forced accuracy by position, in words",
            question="Does a system get worse towards the end of a sentence, counted in words?",
            x_label="target position (words)",
            bins=bins.labels,
            note="A word counts as right when all its pieces are; </s> is left out."
            + study.text.only_first,
            count_label="words",
        ),
        accuracy_figure(
            study,
            hits,
            sentence,
            fifth,
            name="position-relative",
            title="Teacher-forced accuracy by part of the sentence",
            question="Is the end of a sentence harder than its beginning, whatever its length?",
            x_label="part of the sentence",
            bins=list(FIFTHS),
            note="Every sentence is divided into fifths, so that every bin holds short and long "
            f"sentences alike; words, without </s>.{study.text.only_first}",
            count_label="words",
        ),
    ]


def word_of_token(member: Member) -> NDArray[np.int64]:
    """Return the number of the word that each reference token belongs to, -1 for ``</s>``."""
    side = member.run.pipeline.target
    numbers: list[int] = []
    first = 0  # word of the sentence
    for pieces in member.reference_pieces:
        own = first + word_numbers(side, pieces)
        numbers += [*own.tolist(), -1]
        first = int(own[-1]) + 1 if len(own) else first
    return np.array(numbers, dtype=np.int64)


def word_ends(word: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a token is the last one of its word; ``</s>`` is none."""
    after = np.append(word[1:], -1)
    ends: NDArray[np.bool_] = (word >= 0) & (word != after)
    return ends


def _all_hit(member: Member, word: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for every word whether all its tokens were hit."""
    inside = word >= 0
    missed = np.bincount(
        word[inside],
        weights=~member.teacher_forced.hits[inside],
        minlength=int(word.max(initial=-1)) + 1,
    )
    hit: NDArray[np.bool_] = missed == 0
    return hit
