"""Word alignments from the attention of each layer, and their alignment error rate.

The attention from target to source positions, or the Reduction's weights, are computed with the
(first) reference as decoder input. Links are read off in both ways of
`jtrans.decoding.word_alignments`, as neither is better for all systems and layers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.attention.gold import GoldAlignment, error_rates, read_gold
from jtrans.analysis.figures.results import Cell, Table
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.analysis.study.words import is_same_words
from jtrans.data.ids import SIDES, Side
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError, name_hint
from jtrans.preparation.labels.project import overlaps, project_links
from jtrans.text.alignments import WordAlignment, from_pharaoh, to_pharaoh, word_numbers
from jtrans.text.pipeline import TextSide

NOTE = (
    "Word alignments (links) from the weights of each layer, averaged over heads (Reduction: over "
    "features), with the reference as decoder input. Row: the position that predicts the word, or "
    "the one that has just read it. Names count layers from 0."
)
BEST_NOTE = (
    "The layer and row with the lowest alignment error rate (AER) of all runs of a system, chosen "
    "on these gold alignments, so that the rate is somewhat too low; the last column counts the "
    "candidates. Row: the position that predicts the word, or the one that has just read it. Names "
    "count layers from 0: decoder.0.cross belongs to the first."
)


@dataclass(frozen=True)
class LayerAlignment:
    """The word alignments of all sentences from one layer, read off in one of the `READINGS`."""

    layer: str
    reading: str
    sentences: list[WordAlignment]


def alignment_tables(
    study: Study, gold: Sequence[GoldAlignment | None] | None, *, layer: str | None = None
) -> list[Table]:
    """Return the quality of every layer's alignment, and the best layer of every system.

    Without gold alignments the layers are only listed; `layer` restricts the analysis to one map.
    A system without attention from target to source has no rows.

    Raises:
        ConfigError: no such layer.
        CorpusError: a run whose words differ from those of the gold alignments.
    """
    if gold is not None:
        _check_words(study)
    rows: list[list[list[Cell]]] = []
    for subject in study.with_model:
        rows.append([])
        for member in subject.run_members:
            for alignment in layer_alignments(member, layer):
                expected = gold if gold is not None else alignment.sentences
                pairs = zip(alignment.sentences, expected, strict=True)
                total = sum(len(links) for links, wanted in pairs if wanted is not None)
                rates = error_rates(alignment.sentences, gold) if gold is not None else ()
                rows[-1].append([member.name, alignment.layer, alignment.reading, total, *rates])
    columns = ["system", "layer", "row", "links"]
    columns += ["AER", "precision", "recall"] if gold is not None else []
    note = NOTE + study.text.only_first
    tables = [Table("alignment-layers", "Alignment by layer", columns, list(chain(*rows)), note)]
    if gold is not None:
        best = [
            [*min(system_rows, key=lambda r: _or_infinity(r[4])), len(system_rows)]
            for system_rows in rows
            if system_rows
        ]
        title = "Best layer and row, chosen on these gold alignments"
        scored = sum(sentence is not None for sentence in gold)
        note = BEST_NOTE + study.text.only_first
        if scored < len(gold):
            note += f" {scored:,} of {len(gold):,} sentences have gold alignments."
        tables.insert(0, Table("alignment", title, [*columns, "best of"], best, note))
    return tables


def find_gold(
    study: Study, path: Path | None = None, base: int | None = None
) -> list[GoldAlignment | None] | None:
    """Read gold alignments from a file, or those of the prepared corpus; None if there are none.

    Args:
        study: the words of its runs are aligned.
        path: the file; None for the corpus.
        base: the number of the first word in that file, see `read_gold`.

    Raises:
        CorpusError: the alignments do not match the split, or are empty.
    """
    if path is None:
        if study.corpus is None:
            return None
        path = study.corpus.folder / "text" / f"{study.split}.alignments.txt"
        if not path.is_file():
            return None
        gold = _gold_of_corpus(path, study.corpus, study.with_model[0].run_members[0])
    else:
        member = study.with_model[0].run_members[0]
        gold = read_gold(path, member.own_words("source"), member.own_words("target"), base)
    if not any(alignment and alignment.possible for alignment in gold):
        raise CorpusError(
            f"{path} has no links to words: nothing to measure against",
            hint="write source-target word numbers from 0, such as 0-0 1-2, a line per sentence",
            kind="corpus.alignment-empty",
        )
    return gold


def _gold_of_corpus(
    path: Path, corpus: PreparedCorpus, member: Member
) -> list[GoldAlignment | None]:
    """Read the alignments of a corpus's words, and carry them over to the run's words.

    A sentence whose characters differ in the run's words has no gold.
    """
    source, target = (corpus.words_lines(member.text.split, side) for side in SIDES)
    gold = read_gold(path, source, target, base=0)
    owners = [_owners(corpus, source, member, "source"), _owners(corpus, target, member, "target")]
    result: list[GoldAlignment | None] = []
    for sentence, sources, targets in zip(gold, *owners, strict=True):
        if sentence is None or sources is None or targets is None:
            result.append(None)
            continue
        sure, possible = (
            frozenset(project_links(links, sources, targets))
            for links in (sentence.sure, sentence.possible)
        )
        result.append(GoldAlignment(sure, possible))
    return result


def _owners(
    corpus: PreparedCorpus, lines: Sequence[list[str]], member: Member, side: Side
) -> list[list[list[int]] | None]:
    """Return for each word of the run the corpus's words that share its characters (`overlaps`)."""
    corpus_side: TextSide = getattr(corpus.pipeline, side)
    run_side: TextSide = getattr(member.run.pipeline, side)
    return [
        [[number] for number in range(len(line))]
        if line == words
        else overlaps(corpus_side.surfaces(line), run_side, words)
        for line, words in zip(lines, member.own_words(side), strict=True)
    ]


def layer_alignments(member: Member, layer: str | None = None) -> list[LayerAlignment]:
    """Return the alignments of a run: of every layer, or of one.

    They are read from the run's result cache if possible.

    Raises:
        ConfigError: no such layer.
    """
    cached = member.cached("alignment")
    arrays = cached.read()
    if arrays is None:
        arrays = _compute(member)
        cached.write(arrays, member.progress)
    keys, texts = (json.loads(str(arrays[key])) for key in ("names", "lines"))
    alignments = []
    for key, lines in zip(keys, texts, strict=True):
        name, reading = key.rsplit(" ", 1)
        alignments.append(LayerAlignment(name, reading, [from_pharaoh(line) for line in lines]))
    names = list(dict.fromkeys(alignment.layer for alignment in alignments))
    if layer is not None and layer not in names:
        raise ConfigError(
            f"{member.name} has no attention map {layer!r} from target to source",
            where="--layer",
            hint=name_hint(layer, names, f"it has {', '.join(names) or 'none'}"),
            kind="config.unknown-layer",
        )
    return [alignment for alignment in alignments if layer in (None, alignment.layer)]


def best_alignment(
    member: Member, gold: Sequence[GoldAlignment | None] | None, layer: str | None = None
) -> LayerAlignment:
    """Return the alignment with the lowest error rate; without gold, that of the last layer.

    Raises:
        ConfigError: there is no such layer, or no alignment at all.
    """
    alignments = layer_alignments(member, layer)
    if not alignments:
        raise ConfigError(
            f"{member.name} has no attention from target to source words",
            hint="alignments need a system with attention, or the Reduction of a joint one",
            kind="config.unknown-layer",
        )
    if gold is None:
        return next(a for a in alignments if a.layer == alignments[-1].layer)
    return min(alignments, key=lambda a: _or_infinity(error_rates(a.sentences, gold)[0]))


def _check_words(study: Study) -> None:
    first, *others = [member for subject in study.with_model for member in subject.run_members]
    for member in others:
        pipeline, expected = member.run.pipeline, first.run.pipeline
        if not (
            is_same_words(pipeline.source, expected.source)
            and is_same_words(pipeline.target, expected.target)
        ):
            raise CorpusError(
                f"{member.name} and {first.name} segment text into different words: gold "
                "word alignments match only one of them",
                hint="analyse it alone; the links of a --gold FILE must number its words",
                kind="corpus.alignment-words",
            )


def _or_infinity(rate: Cell) -> float:
    return rate if isinstance(rate, int | float) else math.inf


def _compute(member: Member) -> dict[str, NDArray[Any]]:
    """Return the alignments of all sentences in the form of the cache, by ``LAYER READING``."""
    from jtrans.decoding.word_alignments import align_words  # imports torch

    model, pipeline = member.model, member.run.pipeline
    words = [
        (word_numbers(pipeline.source, source), word_numbers(pipeline.target, target))
        for source, target in zip(member.source_pieces, member.reference_pieces, strict=True)
    ]
    result: dict[str, list[WordAlignment]] = {}
    aligned = align_words(model, member.source_ids, member.reference_ids, words)
    with member.lines_of_split():
        for done, (index, alignments) in enumerate(aligned, start=1):
            for key, alignment in alignments.items():
                result.setdefault(key, [[] for _ in words])[index] = alignment
            member.progress.advance("Aligning", done, len(words))
    lines = [[to_pharaoh(pairs) for pairs in sentences] for sentences in result.values()]
    return {"names": np.array(json.dumps([*result])), "lines": np.array(json.dumps(lines))}
