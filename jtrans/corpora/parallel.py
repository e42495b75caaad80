"""Parallel text in memory: what every source of text delivers and `jtrans.data.prepare` takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gold:
    """What is known for certain about the words of a split, one entry for each pair.

    Attributes:
        source_words: the source words that the rest counts, with single spaces between.
        target_words: the same for the target.
        alignments: which source word means which target word, "0-0 1-2".
        source_tags: parts of speech of the source words, "DET NOUN".
    """

    source_words: Sequence[str]
    target_words: Sequence[str]
    alignments: Sequence[str]
    source_tags: Sequence[str]


@dataclass(frozen=True)
class ParallelText:
    """The raw lines of one split; line i of `source` and line i of `target` are a pair.

    Attributes:
        source: source lines, without line ends.
        target: target lines, as many.
        origin: where the lines were read, as the user named it.
        gold: word alignments and tags, where known.
    """

    source: Sequence[str]
    target: Sequence[str]
    origin: tuple[str, ...] = ()
    gold: Gold | None = None

    def __len__(self) -> int:
        return len(self.source)

    def sha256(self) -> dict[str, str]:
        """Return a digest of each side's lines, the same whether they came plain or packed."""
        return {"source": digest(self.source), "target": digest(self.target)}


@dataclass(frozen=True)
class Corpus:
    """Parallel text with its splits: "train", "valid" and any number of test splits."""

    name: str
    languages: tuple[str, str]
    splits: Mapping[str, ParallelText] = field(default_factory=dict)


def digest(lines: Iterable[str]) -> str:
    """Return the sha256 of lines, each ended by a line feed."""
    sha = hashlib.sha256()
    for line in lines:
        sha.update(line.encode("utf-8"))
        sha.update(b"\n")
    return sha.hexdigest()
