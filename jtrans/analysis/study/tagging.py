"""Labels of source words: from a prepared corpus, and as runs predict them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.study.members import Member
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.evaluation.tagging import Gold, TaggingScore, score_tags
from jtrans.preparation.labels.project import overlaps
from jtrans.text.pipeline import TextSide

Labels = dict[str, list[list[str]]]  # by kind, one for each word of each sentence
# the labels of the corpus and those that a run predicts, by kind
TaggedWords = dict[str, tuple[list[Gold], list[list[str]]]]
KIND_NAMES = {"pos": "part of speech", "ner": "entity"}


def gold_labels(
    corpus: PreparedCorpus, split: str, side: TextSide, lines: Sequence[Sequence[str]]
) -> dict[str, list[Gold]]:
    """Return the corpus's labels of the source words of a split, by kind, if they have any.

    A word has the label of the corpus's word that contains its first character, and a word of the
    corpus that of its first piece.

    Args:
        corpus: the prepared corpus.
        split: valid or a test split of it.
        side: the pipeline side that segmented the words; it need not be the corpus's.
        lines: the words of all sentences.

    Raises:
        CorpusError: the corpus is damaged.
    """
    if not corpus.label_names:
        return {}
    own_side, stores = corpus.pipeline.source, corpus.pairs(split).labels
    gold: dict[str, list[Gold]] = {kind: [] for kind in corpus.label_names}
    for number, corpus_words in enumerate(corpus.words_lines(split, "source")):
        firsts = [0, *accumulate(len(own_side.split([word])) for word in corpus_words)]
        words = list(lines[number])
        owners: Sequence[int | None] = range(len(corpus_words))
        if words != corpus_words:
            owners = _owners(own_side.surfaces(corpus_words), side, words)
        for kind, names in corpus.label_names.items():
            labels = stores[kind][number]
            if len(labels) != firsts[-1] + 1:
                raise CorpusError(
                    f"{corpus.folder} is damaged: the labels of line {number + 1:,} of {split} "
                    "do not fit its words",
                    hint="prepare it again with --force",
                    kind="corpus.damaged",
                )
            by_word = [names[i] if i >= 0 else None for i in labels[firsts[:-1]].tolist()]
            gold[kind].append([None if place is None else by_word[place] for place in owners])
    return {kind: labels for kind, labels in gold.items() if any(map(any, labels))}


def _owners(surfaces: Sequence[str], side: TextSide, words: Sequence[str]) -> list[int | None]:
    """Return for each word the corpus's word that contains its first character, or None."""
    characters = overlaps(surfaces, side, words)
    if characters is None:
        return [None] * len(words)
    return [places[0] if places else None for places in characters]


def predicted_labels(member: Member) -> Labels:
    """Return the labels that a run predicts, from its result cache if possible.

    Raises:
        ConfigError: the run cannot tag.
    """
    lines, names = member.own_words("source"), member.run.label_names
    cached, size = member.cached("tags"), sum(map(len, lines))
    arrays = cached.read() if names else None
    if arrays is None or any(len(arrays.get(kind, ())) != size for kind in names):
        arrays = _predict(member, lines)
        cached.write(arrays, member.progress)
    ends = np.cumsum([len(line) for line in lines])[:-1]
    return {
        kind: [[labels[i] for i in line] for line in np.split(np.asarray(arrays[kind]), ends)]
        for kind, labels in names.items()
    }


def _predict(member: Member, lines: Sequence[Sequence[str]]) -> dict[str, NDArray[np.int16]]:
    from jtrans.decoding.tagging import Tagger, require_labels

    names, translator = require_labels(member.run), member.translator
    tagger = Tagger(
        translator.models[0],
        member.run.pipeline.source,
        names,
        translator.batch_tokens,
        # int8 is for search only
        "fp32" if translator.precision == "int8" else translator.precision,
    )
    tagged = tagger.tag_words(lines, member.progress)
    numbers = {kind: {name: i for i, name in enumerate(labels)} for kind, labels in names.items()}
    return {
        kind: np.array([number_of[name] for line in tagged for name in line[kind]], dtype=np.int16)
        for kind, number_of in numbers.items()
    }


def tagging_pairs(member: Member) -> TaggedWords:
    """Return the corpus's and the predicted labels of the kinds that have both.

    Raises:
        CorpusError: the corpus has other labels than the run learned.
    """
    names = member.run.label_names
    if not names or not member.corpus.label_names:
        return {}
    for kind in names.keys() & member.corpus.label_names.keys():
        if names[kind] != member.corpus.label_names[kind]:
            raise CorpusError(
                f"{member.name} learned other labels of the kind {kind} than "
                f"{member.corpus.folder} has ({_difference(names, member.corpus, kind)})",
                hint="--data names a corpus with the labels that it learned",
                kind="corpus.other-labels",
            )
    words, side = member.own_words("source"), member.run.pipeline.source
    gold = gold_labels(member.corpus, member.text.split, side, words)
    if not gold.keys() & names.keys():
        return {}
    predicted = predicted_labels(member)
    return {kind: (gold[kind], predicted[kind]) for kind in names if kind in gold}


def tagging_scores(member: Member) -> list[TaggingScore]:
    """Score the labels that a run predicts on a split, by kind; empty if there is no gold label.

    Raises:
        CorpusError: the corpus has other labels than the run learned.
    """
    return [score_tags(kind, *both) for kind, both in tagging_pairs(member).items()]


def _difference(names: dict[str, list[str]], corpus: PreparedCorpus, kind: str) -> str:
    other = sorted(set(names[kind]) ^ set(corpus.label_names[kind])) or ["their order"]
    return ", ".join(other[:3]) + (" ..." if len(other) > 3 else "")
