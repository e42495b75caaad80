"""Bilingual phrases: words of both languages whose alignment survives any reordering.

Every word carries the units of meaning it expresses. A source and a target word are aligned when
they share a unit, wherever word order puts them, so rules may split, move and join words freely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class Unit:
    """One unit of meaning; two units are the same only when they are one object."""

    __slots__ = ()


Units = tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, the units it expresses, and, on the source side, part of speech and entity."""

    text: str
    units: Units
    tag: str = ""
    entity: str = "O"  # PER, LOC or none


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words of the source and of the target; either side may be empty."""

    source: tuple[Word, ...] = ()
    target: tuple[Word, ...] = ()

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.source + other.source, self.target + other.target)


NOTHING = Phrase()
English = tuple[tuple[Word, ...], tuple[Word, ...]]  # a verb group: auxiliary, rest


def pair(source: str, tag: str, target: str, entity: str = "O") -> Phrase:
    """Make one source word and the words that translate it, if any."""
    units = (Unit(),)
    words = tuple(Word(word, units) for word in target.split())
    return Phrase((Word(source, units, tag, entity),), words)


def literal(spelling: str) -> Phrase:
    """Make a fixed phrase from source/TAG/English entries; an underscore is an English blank."""
    phrase = NOTHING
    for entry in spelling.split():
        source, tag, target = entry.split("/")
        phrase += pair(source, tag, target.replace("_", " "))
    return phrase


def weave(source: Iterable[Phrase], target: Iterable[Phrase]) -> Phrase:
    """Order phrases separately for the source and for the target."""
    return Phrase(
        tuple(word for phrase in source for word in phrase.source),
        tuple(word for phrase in target for word in phrase.target),
    )


def fuse(first: Word, second: Word, text: str = "") -> Word:
    """Make one word of two: can + not, an + ruft, in + dem = im."""
    return Word(text or first.text + second.text, first.units + second.units, second.tag)


def english_words(text: str, units: Units) -> tuple[Word, ...]:
    """Make English words that all express the same units."""
    return tuple(Word(word, units) for word in text.split())
