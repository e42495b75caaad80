"""Gold alignments and tags, counted in the words that the pipeline makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jtrans.preparation.labels.project import overlaps, surfaces

if TYPE_CHECKING:
    from jtrans.corpora.parallel import Gold
    from jtrans.text.pipeline import TextPipeline, TextSide


def gold_lines(
    gold: Gold,
    places: Iterable[int],
    words: Iterable[tuple[list[str], list[str]]],
    pipeline: TextPipeline,
) -> tuple[dict[str, list[str]], int]:
    """Carry gold data over to the words of the pipeline.

    Where a segmenter cuts otherwise than the corpus, words take over the links and the tag of
    the gold words they share characters with. A pair whose characters are not those of its gold
    words gets an empty line.

    Args:
        gold: of the whole split.
        places: positions in the split of the pairs that stay.
        words: the words of these pairs, source and target.
        pipeline: which made them.

    Returns:
        Lines by the ending of their file, and how many pairs got an empty line.
    """
    alignments: list[str] = []
    tags: list[str] = []
    lost = 0
    for i, (source, target) in zip(places, words, strict=True):
        owners = _owners(gold.source_words[i], pipeline.source, source)
        other = _owners(gold.target_words[i], pipeline.target, target)
        if owners is None or other is None:
            lost += 1
            alignments.append("")
            tags.append("")
            continue
        links = {(int(s), int(t)) for s, t in (k.split("-") for k in gold.alignments[i].split())}
        alignments.append(" ".join(f"{s}-{t}" for s, t in _carried(links, owners, other)))
        names = gold.source_tags[i].split()
        tags.append(" ".join(names[owner[0]] if owner else "X" for owner in owners))
    if lost == len(alignments):
        return {}, lost
    return {"alignments.txt": alignments, "source.tags.txt": tags}, lost


def _owners(gold_words: str, side: TextSide, words: Sequence[str]) -> list[list[int]] | None:
    return overlaps(gold_words.split(), surfaces(side, words))


def _carried(
    links: set[tuple[int, int]], source: list[list[int]], target: list[list[int]]
) -> list[tuple[int, int]]:
    sources, targets = _places(source), _places(target)
    return sorted({(s, t) for a, b in links for s in sources[a] for t in targets[b]})


def _places(owners: list[list[int]]) -> defaultdict[int, set[int]]:
    """Return the words that share characters with each gold word."""
    places: defaultdict[int, set[int]] = defaultdict(set)
    for place, owner in enumerate(owners):
        for gold in owner:
            places[gold].add(place)
    return places
