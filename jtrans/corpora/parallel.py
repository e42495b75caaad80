"""Parallel text: the output of every reader and the input of preparation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jtrans.corpora.lines import Chain
from jtrans.errors import how_many


@dataclass(frozen=True)
class Tagged:
    """A sentence with the words and tags of a tagger."""

    words: Sequence[str]  # its words, without white space
    tags: Sequence[str]  # a universal part of speech (UPOS) for each word, "_" for none
    # "O", a type, or a type after "B-" or "I-" for each word; empty if unknown. The same type twice
    # in a row is one entity
    entities: Sequence[str] = ()


@dataclass(frozen=True)
class Gold:
    """Gold annotation of a split, one entry for each pair."""

    # the source words that the rest refers to, separated by single spaces
    source_words: Sequence[str]
    target_words: Sequence[str]  # the target words that alignments refer to
    alignments: Sequence[str]  # the word alignments, "0-0 1-2"; empty if unknown
    source_tags: Sequence[str]  # parts of speech of the source words, "DET NOUN"
    # entity types of the source words, "O PER" or "O B-PER"; empty if unknown
    source_entities: Sequence[str] = ()


@dataclass(frozen=True)
class ParallelText:
    """The raw lines of one split; line i of `source` and line i of `target` are a pair."""

    source: Sequence[str]  # source lines, without line ends
    target: Sequence[str]  # target lines, the same number
    origin: tuple[str, ...] = ()  # where the lines were read, as the user named it
    files: tuple[str, ...] = ()  # the files, where `origin` is not their names
    gold: Gold | None = None  # word alignments and tags, if known
    # all translations of each line, `target` being the first, where a test set has several; empty
    # where it has one
    references: tuple[Sequence[str], ...] = ()
    # oddities noticed while reading, and how often ("U+2028 inside a line": 3)
    notes: Mapping[str, int] = field(default_factory=dict)
    # bad lines that were left out, with their partners, by reason ("not UTF-8": 3)
    skipped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def skipped_text(self) -> str:
        """The number of bad lines that were left out, with the reasons: "3 bad lines (...)"."""
        total = sum(self.skipped.values())
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.skipped.items())
        return f"{how_many(total, 'bad line')} ({reasons})"


@dataclass(frozen=True)
class Corpus:
    """Parallel text with its splits: "train", "valid" and any number of test splits.

    Train and valid may be missing where nothing is learned from the text.
    """

    name: str  # as users type it
    languages: tuple[str, str]  # source and target
    splits: Mapping[str, ParallelText] = field(default_factory=dict)  # the text by name
    # n, if there is no valid split: every n-th training pair that cleaning keeps becomes part of it
    # (`jtrans.preparation.select`)
    valid_every: int | None = None
    # alternatively, the number of such pairs, chosen by their text
    valid_size: int | None = None
    # the original files of a corpus of the catalogue: path, url, bytes, sha256
    originals: tuple[Mapping[str, Any], ...] = ()


def join_texts(parts: Sequence[ParallelText]) -> ParallelText:
    """Concatenate texts; several references are kept only if all texts have the same number."""
    if len(parts) == 1:
        return parts[0]
    notes = sum((Counter(part.notes) for part in parts), Counter[str]())
    skipped = sum((Counter(part.skipped) for part in parts), Counter[str]())
    counts = {len(part.references) for part in parts}
    references = zip(*(part.references for part in parts), strict=True) if len(counts) == 1 else ()
    return ParallelText(
        source=Chain(part.source for part in parts),
        target=Chain(part.target for part in parts),
        origin=tuple(origin for part in parts for origin in part.origin),
        files=tuple(path for part in parts for path in part.files or part.origin),
        gold=_join_gold(parts),
        references=tuple(Chain(same) for same in references),
        notes=notes,
        skipped=skipped,
    )


def _join_gold(parts: Sequence[ParallelText]) -> Gold | None:
    """Concatenate gold annotation; a kind that some part lacks is left out."""
    golds = [part.gold for part in parts if part.gold is not None]
    if len(golds) < len(parts):
        return None
    joined: dict[str, Sequence[str]] = {}
    for kind in fields(Gold):
        values: list[Sequence[str]] = [getattr(gold, kind.name) for gold in golds]
        joined[kind.name] = Chain(values) if all(map(len, values)) else ()
    return Gold(**joined)


def describe_notes(splits: Mapping[str, ParallelText]) -> list[str]:
    """Return a line for each split with notes: "train: U+2028 inside a line 3"."""
    return [
        f"{split}: " + " · ".join(f"{name} {count:,}" for name, count in sorted(text.notes.items()))
        for split, text in splits.items()
        if text.notes
    ]
