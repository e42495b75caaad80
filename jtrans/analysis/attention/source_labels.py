"""Quality by part of speech and entity of the source words, and how well these are tagged.

A word of the reference has the label of the source word that it is aligned to, or of the first one
if there are several; words without a link are left out. (compare-mt, Neubig et al. 2019, counts
source words instead, each right if all words that are aligned to it are.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.attention.layer_alignments import best_alignment, find_gold, layer_alignments
from jtrans.analysis.figures.frequency import f_measure_figure
from jtrans.analysis.figures.position import (
    TEACHER_FORCED,
    accuracy_values,
    all_tokens_hit,
    word_of_token,
)
from jtrans.analysis.figures.results import Cell, Figure, Table
from jtrans.analysis.figures.series import binned_figure
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.analysis.study.tagging import KIND_NAMES, TaggedWords, gold_labels, tagging_pairs
from jtrans.errors import CorpusError
from jtrans.evaluation.tagging import (
    NER,
    OUTSIDE,
    entity_types,
    label_counts,
    score_tags,
    span_counts,
)
from jtrans.text.alignments import WordAlignment

NO_ENTITY = "no entity"


@dataclass(frozen=True)
class _TargetLabels:
    """The labels of the words of the reference, by one kind."""

    kind: str
    names: list[str]  # labels that occur, in the corpus's order
    numbers: list[list[int]]  # the label of every word of every sentence; -1 for none
    note: str  # where the alignments come from

    @property
    def flat(self) -> NDArray[np.int64]:
        """The labels of all words, [words]."""
        return np.array([i for line in self.numbers for i in line], dtype=np.int64)

    @property
    def sentence(self) -> NDArray[np.int64]:
        """The sentence of every word, [words]."""
        return np.repeat(np.arange(len(self.numbers)), [len(line) for line in self.numbers])


def label_figures(
    study: Study, path: Path | None = None, base: int | None = None
) -> list[Figure | Table]:
    """Return accuracy and F-measure of words by label, and the quality of predicted labels.

    Args:
        study: its corpus has labels in the split.
        path: a file of word alignments, see `find_gold`; None for those of the corpus or, if it has
            none, of the attention of the first system that has some.
        base: the number of the first word in that file.

    Raises:
        CorpusError: the split has no labels, the runs split words too differently, or there are
            no alignments and no run that tags.
    """
    member = study.with_model[0].run_members[0]
    words = member.own_words("source")
    gold = gold_labels(member.corpus, study.split, member.run.pipeline.source, words)
    if not gold:
        raise CorpusError(
            f"{member.corpus.folder} has no labels of the source words of {study.split}",
            hint="prepare it with --labels spacy:MODEL or conllu:FILE",
            kind="corpus.no-labels",
        )
    tagging = _tagging(study)
    aligned = _alignments(study, path, base)
    if aligned is None and not tagging:
        raise CorpusError(
            "no word alignments to project the labels onto the words of the reference: neither "
            f"{member.corpus.folder} nor the attention of a system provides them",
            hint="--gold FILE names alignments, such as those of fast_align",
            kind="corpus.alignment-empty",
        )
    figures: list[Figure | Table] = []
    left_out: list[str] = []
    for kind, lines in gold.items():
        labels = None if aligned is None else _of_target(study, kind, lines, *aligned)
        if labels is None or not labels.names:
            continue
        if not study.token_difference:
            figures.append(_accuracy(study, labels))
        else:
            left_out.append(f"accuracy by label is left out: {study.token_difference}")
        if [len(line) for line in study.reference_words] == [len(n) for n in labels.numbers]:
            figures.append(_f_measure(study, labels))
        else:
            left_out.append(
                f"F-measure by label is left out: {member.name} has other words than those into "
                "which the lines of all systems are split; name another run first"
            )
    if left_out and not figures and not tagging:
        raise CorpusError(
            "; ".join(dict.fromkeys(left_out)),
            hint="analyse the runs one by one",
            kind="corpus.different-words",
        )
    study.warnings.extend(dict.fromkeys(left_out))
    return [*figures, *tagging]


def _alignments(
    study: Study, path: Path | None, base: int | None
) -> tuple[list[WordAlignment], str] | None:
    """Return alignments of source and reference words, and where they come from."""
    gold = find_gold(study, path, base)
    if gold is not None:
        links = [[] if alignment is None else sorted(alignment.possible) for alignment in gold]
        return links, f"Alignments: {path or 'those of the corpus'}."
    for subject in study.with_model:
        member = subject.run_members[0]
        if layer_alignments(member):
            best = best_alignment(member, None)
            return best.sentences, f"Alignments: {best.layer} of {member.name} ({best.reading})."
    return None


def _of_target(
    study: Study,
    kind: str,
    source: Sequence[Sequence[str | None]],
    alignments: Sequence[WordAlignment],
    note: str,
) -> _TargetLabels:
    """Give the words of the reference the labels of the source words they are aligned to."""
    sizes = [len(words) for words in study.with_model[0].run_members[0].own_words("target")]
    order = [_shown(kind, name) for name in study.label_names[kind]]
    names: list[list[str | None]] = []
    for size, labels, links in zip(sizes, source, alignments, strict=True):
        target_labels: list[str | None] = [None] * size
        for i, j in sorted(links, reverse=True):  # written last, the first source word wins
            label = labels[i]
            target_labels[j] = target_labels[j] if label is None else _shown(kind, label)
        names.append(target_labels)
    present = {name for line in names for name in line}
    kept = [name for name in dict.fromkeys(order) if name in present]
    place = {name: number for number, name in enumerate(kept)}
    numbers = [[-1 if name is None else place[name] for name in line] for line in names]
    return _TargetLabels(kind, kept, numbers, note + study.text.only_first)


def _shown(kind: str, label: str) -> str:
    """Return a label as the name of a bin: of an entity only its type, without B- or I-."""
    if kind != NER:
        return label
    return NO_ENTITY if label == OUTSIDE else label.partition("-")[2]


def _accuracy(study: Study, labels: _TargetLabels) -> Figure:
    word = word_of_token(study.with_model[0].run_members[0])
    name = KIND_NAMES[labels.kind]
    return binned_figure(
        study,
        accuracy_values(study, lambda member: all_tokens_hit(member, word)),
        labels.flat,
        labels.names,
        sentence=labels.sentence,
        name=f"labels-{labels.kind}-accuracy",
        title=f"Teacher-forced accuracy by {name} of the source word",
        question="For which source words does a system rank the right translation first?",
        x_label=name,
        y_label="accuracy",
        note=f"{TEACHER_FORCED.replace('tokens', 'words')} (all subwords of a word), by the {name} "
        f"of the source word that they are aligned to. {labels.note}",
        count_label="words",
        kind="points",
    )


def _f_measure(study: Study, labels: _TargetLabels) -> Figure:
    name, references = KIND_NAMES[labels.kind], study.reference_words
    matches = [
        [
            matches_by_label(
                member.words_by(study.words), references, labels.numbers, len(labels.names)
            )
            for member in subject.members
        ]
        for subject in study.subjects
    ]
    return f_measure_figure(
        study,
        study.subjects,
        matches,
        labels.names,
        name=f"labels-{labels.kind}-f-measure",
        title=f"F-measure of words by {name} of the source word",
        question="Which source words are translated well?",
        x_label=name,
        note=f"Words of the translation that match the reference, clipped, by the {name} of the "
        "source word that the reference word is aligned to. A word without a match gets the label "
        "that it has most often in the references; words that are in none have no label, and do "
        "not count. "
        f"{labels.note}{study.words.note}",
        count_label="reference words",
        kind="points",
    )


def matches_by_label(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    labels: Sequence[Sequence[int]],
    count: int,
) -> NDArray[np.float64]:
    """Count words by sentence and label: matched, in the hypothesis, in the reference.

    Args:
        hypotheses: the words of every translation.
        references: the words of every reference.
        labels: the label of every word of `references`, from 0, below `count`; -1 for none.
        count: the number of labels.

    Returns:
        [sentences, labels, 3].
    """
    label_counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for reference, numbers in zip(references, labels, strict=True):
        for word, label in zip(reference, numbers, strict=True):
            label_counts[word][label] += 1
    sums = np.zeros((len(references), count + 1, 3))  # the last row collects words without a label
    for row, hypothesis, reference, numbers in zip(
        sums, hypotheses, references, labels, strict=True
    ):
        unmatched: defaultdict[str, list[int]] = defaultdict(list)
        for word, label in zip(reference, numbers, strict=True):
            unmatched[word].append(label)
            row[label, 2] += 1
        for word in hypothesis:
            if unmatched[word]:
                row[unmatched[word].pop(0), :2] += 1
            elif word in label_counts:
                row[label_counts[word].most_common(1)[0][0], 1] += 1
    return sums[:, :count]


def _tagging(study: Study) -> list[Figure | Table]:
    """Return the quality of the labels that runs predict; nothing without such runs."""
    pairs = {member: tagging_pairs(member) for s in study.with_model for member in s.run_members}
    kinds = list(dict.fromkeys(kind for labels in pairs.values() for kind in labels))
    figures: list[Figure | Table] = [_tagging_figure(study, pairs, kind) for kind in kinds]
    return [*figures, _tagging_table(pairs)] if figures else []


def _tagging_figure(study: Study, pairs: Mapping[Member, TaggedWords], kind: str) -> Figure:
    count = span_counts if kind == NER else label_counts
    tagged = [s for s in study.with_model if all(kind in pairs[m] for m in s.run_members)]
    first = tagged[0].run_members[0]
    order = first.corpus.label_names[kind]  # the corpus of the study may have fewer kinds
    gold, _ = pairs[first][kind]
    present = {label for line in gold for label in line if label}
    names = entity_types(order) if kind == NER else [name for name in order if name in present]
    sums = [[count(*pairs[member][kind], names) for member in s.run_members] for s in tagged]
    return f_measure_figure(
        study,
        tagged,
        sums,
        names,
        name=f"labels-{kind}-tagging",
        title=f"F-measure of predicted labels: {KIND_NAMES[kind]}",
        question="Which source words does a system tag well?",
        x_label=KIND_NAMES[kind],
        note="Labels of source words that the tagging heads predict, against those of the corpus; "
        "a word has the label of its first piece."
        + (" An entity counts only if all its words and its type are right." * (kind == NER)),
        count_label="entities" if kind == NER else "words",
        kind="points",
    )


def _tagging_table(pairs: Mapping[Member, TaggedWords]) -> Table:
    rows: list[list[Cell]] = []
    for member, tagged in pairs.items():
        for score in (score_tags(kind, *both) for kind, both in tagged.items()):
            name = KIND_NAMES[score.kind]
            accuracy: list[Cell] = [member.name, name, score.words, score.accuracy]
            rows.append([*accuracy, score.entities, score.precision, score.recall, score.f1])
    columns = ["system", "labels", "words", "accuracy", "entities", "precision", "recall", "F1"]
    note = "Accuracy over words; precision, recall and F1 over whole entities, as in conlleval."
    return Table("labels-tagging", "Predicted labels", columns, rows, note)
