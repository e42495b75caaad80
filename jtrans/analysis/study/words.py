"""The words that a study compares, the same for all its systems and for any order of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jtrans.text.pipeline import TextPipeline, TextSide


@dataclass(frozen=True)
class StudyWords:
    """How lines are split into words that can be compared.

    Lines are split as the runs split them if all do so alike; else by the segmenter they share,
    without truecasing and dictionary; else by the default segmenter of the language. Characters
    that any run removes, narrows or protects are removed, narrowed or protected in all lines.
    """

    source: TextSide | None  # splits lines of the source language; None: there are none
    target: TextSide  # splits lines of the target language, without lower-casing
    lowercase: bool  # whether words and scores are compared without case
    is_mixed: bool = False  # whether the runs split the target language into different words

    @classmethod
    def of(cls, pipelines: Sequence[TextPipeline], lowercase: bool | None = None) -> StudyWords:
        """Return the words of a study.

        Args:
            pipelines: of its runs, in any order.
            lowercase: compare without case; None: if a run writes lower case.
        """
        sources, targets = ([getattr(p, side) for p in pipelines] for side in ("source", "target"))
        if lowercase is None:
            lowercase = any(side.lowercase for side in targets)
        is_mixed = not all(is_same_words(side, targets[0]) for side in targets)
        return cls(_common(sources), _common(targets), lowercase, is_mixed)

    def fold(self, words: Sequence[str]) -> list[str]:
        """Return words in lower case if case does not count, else as they are."""
        return [word.lower() for word in words] if self.lowercase else list(words)

    def split(self, line: str) -> list[str]:
        """Split a raw line of the target language."""
        return self.fold(self.target.segment(line))

    def like(self, side: TextSide) -> StudyWords:
        """Return how a run with this target side splits lines; lower-cased if its text is."""
        lowercase = self.lowercase or side.lowercase
        if not self.is_mixed and is_same_words(side, self.target):
            return replace(self, lowercase=lowercase)
        return replace(self, target=_splitting(side), lowercase=lowercase, is_mixed=True)

    @property
    def note(self) -> str:
        """A sentence for the notes of figures that count words; often empty."""
        note = " Words are compared without case." if self.lowercase else ""
        if self.is_mixed:
            note += f" The systems' words differ: all lines are split by {self.target.segmenter}."
        return note


@dataclass(frozen=True)
class TrainingWords:
    """The counts of the target words of a training text."""

    corpus: str  # the name of the prepared corpus, or of the file
    words: StudyWords  # how lines are split into the words that are counted
    counts: Counter[str]
    note: str = ""  # a sentence for the notes of figures; often empty


def is_same_words(side: TextSide, other: TextSide) -> bool:
    """Return whether two sides segment raw text into the same words, apart from lower case."""
    names = ("language", "segmenter", "truecaser", "dictionary")
    cleaning = ("strip_invisible", "protect", "narrow")
    return all(getattr(side, name) == getattr(other, name) for name in (*names, *cleaning))


def is_same_segmentation(side: TextSide, other: TextSide) -> bool:
    """Return whether two sides segment raw text into the same words."""
    return is_same_words(side, other) and side.lowercase == other.lowercase


def _splitting(side: TextSide) -> TextSide:
    """Return a side that splits lines into the same words, but does not lower-case them."""
    return replace(side.bare(), lowercase=False, spell=False, truecaser=side.truecaser)


def _common(sides: Sequence[TextSide]) -> TextSide:
    first = sides[0]
    if all(is_same_words(side, first) for side in sides):
        return _splitting(first)
    is_one_segmenter = all(side.segmenter == first.segmenter for side in sides)
    return TextSide(
        first.language,
        first.segmenter if is_one_segmenter else "auto",
        strip_invisible=any(side.strip_invisible for side in sides),
        protect=any(side.protect for side in sides),
        narrow=any(side.narrow for side in sides),
    )
