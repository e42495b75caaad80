"""Tags and word alignments, projected onto the words and pieces a model reads.

The words of a tagger, those of a segmenter and BPE pieces rarely agree, but their characters do. So
they are aligned by the characters of the sentence, ignoring white space and case: a piece gets the
tag of the tagger's word that contains its first character. Where the characters differ, the labels
of the sentence are `IGNORE`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from jtrans.corpora.formats.conllu import NO_TAG
from jtrans.corpora.parallel import Gold, Tagged
from jtrans.data.ids import IGNORE
from jtrans.errors import CorpusError
from jtrans.text.alignments import from_pharaoh, owners, to_pharaoh
from jtrans.text.bpe import MARK
from jtrans.text.pipeline import TextPipeline, TextSide

POS_TAGS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X", "SPACE",
)  # fmt: skip
_ONTONOTES = (
    "CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY", "NORP",
    "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART",
)  # fmt: skip


def name_labels(entity_types: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of labels by kind; the number of a label is its position.

    "pos" are parts of speech. "ner", which is missing without `entity_types`, are "O", then "B-"
    and "I-" for each type, or for all types of OntoNotes if those include them.

    Raises:
        CorpusError: there are too many types.
    """
    names = {"pos": list(POS_TAGS)}
    types = sorted(set(entity_types))
    if types and set(types) <= set(_ONTONOTES):
        types = list(_ONTONOTES)
    if types:
        names["ner"] = ["O", *(f"{begin}-{name}" for name in types for begin in "BI")]
    most = max(map(len, names.values()))
    if most > np.iinfo(np.int8).max:
        raise CorpusError(
            f"{len(types):,} types of entities are too many: {most:,} labels, at most "
            f"{np.iinfo(np.int8).max}",
            where="--labels",
            hint="types are what follows NER= in the last column, such as PER in NER=B-PER",
            kind="corpus.entity-types",
        )
    return names


def project(
    tagged: Tagged | None,
    side: TextSide,
    words: Sequence[str],
    label_names: Mapping[str, Sequence[str]],
) -> dict[str, NDArray[np.int8]]:
    """Label the pieces of a sentence, and EOS, which has no label.

    `words` come from the segmenter of the source `side`; `tagged` is None if there are no tags.

    Returns:
        The label of each piece, by kind, [pieces + 1].
    """
    pieces = [side.split([word]) for word in words]
    size = sum(len(part) for part in pieces) + 1
    labels = {kind: np.full(size, IGNORE, np.int8) for kind in label_names}
    shared = None if tagged is None else overlaps(tagged.words, side, words)
    if tagged is None or shared is None:
        return labels
    numbers = {
        kind: {name: i for i, name in enumerate(names)} for kind, names in label_names.items()
    }
    entities = number_entities(tagged.entities) if "ner" in labels else []
    piece, last_entity = 0, 0
    for place, (word, owner, parts) in enumerate(zip(words, shared, pieces, strict=True)):
        if not owner:  # a space as a word (segmentation by characters), which is in no tagged word
            if entities:
                # it is inside an entity that the word after it continues
                after = next((entities[owned[0]] for owned in shared[place:] if owned), (0, ""))
                label = f"I-{after[1]}" if 0 < after[0] == last_entity else "O"
                inside = numbers["ner"].get(label, numbers["ner"]["O"])
                labels["ner"][piece : piece + len(parts)] = inside
            piece += len(parts)
            continue
        for owned in _piece_owners(word, owner, parts):
            tag = tagged.tags[owned]
            if tag != NO_TAG:
                labels["pos"][piece] = numbers["pos"].get(tag, numbers["pos"]["X"])
            if entities:
                number, name = entities[owned]
                label = f"{'I' if number == last_entity else 'B'}-{name}" if number else "O"
                labels["ner"][piece] = numbers["ner"].get(label, numbers["ner"]["O"])
                last_entity = number
            piece += 1
    return labels


def overlaps(words: Sequence[str], side: TextSide, others: Sequence[str]) -> list[list[int]] | None:
    """Return the `owners` of `others`, the words of `side`, ignoring case.

    None if the characters of the two texts differ.
    """
    text = [side.normalise(word).replace(" ", "").lower() for word in words]
    lowered = [other.lower() for other in side.surfaces(others)]
    return owners(text, lowered)


def number_entities(entities: Sequence[str]) -> list[tuple[int, str]]:
    """Return the number of each word's entity, from 1 (0 for none), and its type."""
    numbered: list[tuple[int, str]] = []
    number, last = 0, ""
    for entity in entities:
        prefix, separator, name = entity.partition("-")
        if not separator or prefix not in ("B", "I"):
            prefix, name = "", entity
        if name in ("", "O", "_"):
            name = ""
        elif prefix == "B" or name != last:
            number += 1
        numbered.append((number if name else 0, name))
        last = name
    return numbered


def _piece_owners(word: str, owner: Sequence[int], parts: Sequence[str]) -> list[int]:
    """Return for each piece of a word the tagger's word that has its first character."""
    if len(owner) != len(word):
        return [owner[0]] * len(parts)  # an escape such as "&apos;" is longer than its character
    starts = [0, *accumulate(len(part.removesuffix(MARK)) for part in parts[:-1])]
    return [owner[min(start, len(owner) - 1)] for start in starts]


def gold_lines(
    gold: Gold,
    positions: Iterable[int],
    words: Iterable[tuple[list[str], list[str]]],
    pipeline: TextPipeline,
) -> tuple[dict[str, list[str]], int]:
    """Project gold alignments and tags onto the words of the pipeline.

    Where a segmenter splits words differently from the corpus, its words get the alignments and
    the tag of the gold words with which they share characters. A pair whose characters differ
    from those of its gold words gets an empty line.

    `gold` annotates the whole split; `words` are the words of the pairs at `positions`.

    Returns:
        The lines, by the ending of their file, and the number of pairs with an empty line.
    """
    alignments: list[str] = []
    tags: list[str] = []
    lost = 0
    for i, (source, target) in zip(positions, words, strict=True):
        source_words, target_words = gold.source_words[i].split(), gold.target_words[i].split()
        source_owners = overlaps(source_words, pipeline.source, source)
        target_owners = overlaps(target_words, pipeline.target, target)
        if source_owners is None or target_owners is None:
            lost += 1
            alignments.append("")
            tags.append("")
            continue
        links = from_pharaoh(gold.alignments[i]) if gold.alignments else []
        alignments.append(to_pharaoh(project_links(links, source_owners, target_owners)))
        names = gold.source_tags[i].split()
        tags.append(" ".join(names[owner[0]] if owner else "X" for owner in source_owners))
    if lost == len(alignments):
        return {}, lost
    lines = {"source.tags.txt": tags}
    return {"alignments.txt": alignments, **lines} if gold.alignments else lines, lost


def project_links(
    links: Iterable[tuple[int, int]],
    source_owners: Sequence[Sequence[int]],
    target_owners: Sequence[Sequence[int]],
) -> set[tuple[int, int]]:
    """Carry links over to another segmentation: words are linked if they share linked characters.

    Args:
        links: pairs of a source and a target word.
        source_owners: for each source word of the other segmentation, the words that share its
            characters, as from `overlaps`.
        target_owners: those of the target words.
    """
    sources, targets = _words_of(source_owners), _words_of(target_owners)
    return {(s, t) for a, b in links for s in sources[a] for t in targets[b]}


def _words_of(owners: Sequence[Sequence[int]]) -> defaultdict[int, set[int]]:
    """Return the words that share characters with each gold word."""
    words: defaultdict[int, set[int]] = defaultdict(set)
    for word, owner in enumerate(owners):
        for gold in owner:
            words[gold].add(word)
    return words
