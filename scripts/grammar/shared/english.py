"""English verb forms and articles, for the target side of both grammars."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

VOWELS = "aeiou"


@dataclass(frozen=True)
class Agreement:
    """Person and number, in which a verb agrees with its subject."""

    person: Literal[1, 2, 3] = 3
    is_plural: bool = False

    @property
    def row(self) -> int:
        """The index in the order ich, du, er, wir, ihr, sie."""
        return self.person - 1 + 3 * self.is_plural


def english_be(agreement: Agreement) -> str:
    """Return the present of to be."""
    return ("am", "are", "is", "are", "are", "are")[agreement.row]


def english_was(agreement: Agreement) -> str:
    """Return the past of to be."""
    return ("was", "were", "was", "were", "were", "were")[agreement.row]


@cache
def english_present(verb: str, is_third_singular: bool) -> str:
    """Conjugate an English verb, whose first word carries the ending, in the present."""
    if not is_third_singular:
        return verb
    first, blank, rest = verb.partition(" ")
    if first == "have":
        first = "has"
    elif first.endswith(("s", "sh", "ch", "x", "o")):
        first += "es"
    elif _ends_in_consonant_y(first):
        first = first[:-1] + "ies"
    else:
        first += "s"
    return first + blank + rest


@cache
def english_past(verb: str) -> str:
    """Return the regular past of an English verb."""
    first, blank, rest = verb.partition(" ")
    if first.endswith("e"):
        first += "d"
    elif _ends_in_consonant_y(first):
        first = first[:-1] + "ied"
    else:
        first = _doubled(first) + "ed"
    return first + blank + rest


@cache
def english_progressive(verb: str) -> str:
    """Return the -ing form of an English verb."""
    first, blank, rest = verb.partition(" ")
    if first.endswith("ie"):
        first = first[:-2] + "y"
    elif first.endswith("e") and not first.endswith("ee"):
        first = first[:-1]
    else:
        first = _doubled(first)
    return first + "ing" + blank + rest


def indefinite_article(following: str) -> str:
    """Return a or an, by the word that follows."""
    return "an" if following[0].lower() in VOWELS else "a"


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in VOWELS


def _doubled(word: str) -> str:
    """Double the last letter of verbs like run and get."""
    if len(word) < 3 or sum(letter in VOWELS for letter in word) != 1:
        return word
    before, vowel, last = word[-3], word[-2], word[-1]
    is_short = before not in VOWELS and vowel in VOWELS and last not in VOWELS + "wxy"
    return word + last if is_short else word
