"""Gold alignments and tags, projected onto the words of the pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from jtrans.corpora.parallel import Gold
from jtrans.preparation.labels.project import overlaps, surfaces
from jtrans.text.pipeline import TextPipeline, TextSide


def gold_lines(
    gold: Gold,
    positions: Iterable[int],
    words: Iterable[tuple[list[str], list[str]]],
    pipeline: TextPipeline,
) -> tuple[dict[str, list[str]], int]:
    """Project gold alignments and tags onto the words of the pipeline.

    Where a segmenter splits words differently from the corpus, its words get the alignments and
    the tag of the gold words with which they share characters. A pair whose characters are not
    those of its gold words gets an empty line.

    Args:
        gold: the gold annotation of the whole split.
        positions: positions in the split of the pairs that stay.
        words: the words of these pairs, source and target.
        pipeline: the pipeline that made the words.

    Returns:
        The lines, by the ending of their file, and how many pairs got an empty line.
    """
    alignments: list[str] = []
    tags: list[str] = []
    lost = 0
    for i, (source, target) in zip(positions, words, strict=True):
        source_owners = _owners(gold.source_words[i], pipeline.source, source)
        target_owners = _owners(gold.target_words[i], pipeline.target, target)
        if source_owners is None or target_owners is None:
            lost += 1
            alignments.append("")
            tags.append("")
            continue
        pairs = {(int(s), int(t)) for s, t in (k.split("-") for k in gold.alignments[i].split())}
        projected = _project(pairs, source_owners, target_owners)
        alignments.append(" ".join(f"{s}-{t}" for s, t in projected))
        names = gold.source_tags[i].split()
        tags.append(" ".join(names[owner[0]] if owner else "X" for owner in source_owners))
    if lost == len(alignments):
        return {}, lost
    return {"alignments.txt": alignments, "source.tags.txt": tags}, lost


def _owners(gold_words: str, side: TextSide, words: Sequence[str]) -> list[list[int]] | None:
    return overlaps(gold_words.split(), surfaces(side, words))


def _project(
    alignment: set[tuple[int, int]],
    source_owners: list[list[int]],
    target_owners: list[list[int]],
) -> list[tuple[int, int]]:
    sources, targets = _words_of(source_owners), _words_of(target_owners)
    return sorted({(s, t) for a, b in alignment for s in sources[a] for t in targets[b]})


def _words_of(owners: list[list[int]]) -> defaultdict[int, set[int]]:
    """Return the words that share characters with each gold word."""
    words: defaultdict[int, set[int]] = defaultdict(set)
    for word, owner in enumerate(owners):
        for gold in owner:
            words[gold].add(word)
    return words
