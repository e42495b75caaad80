"""Spaces between words in Chinese text, as the training text has them.

Chinese has no spaces, but beside Latin letters, digits and ASCII marks writers differ: manuals have
"用 Python 写", most other text "用Python写". jieba's words do not record it, so the training text
decides between which kinds of characters a space is the rule.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

LEAST = 5  # spaces between two kinds of characters; fewer do not make a rule


def is_spaced(character: str) -> bool:
    """Return whether a character belongs to a script with spaces between words."""
    if character.isascii():
        return character.isalnum()
    wide = unicodedata.east_asian_width(character) in ("W", "F")
    return not wide and (character.isalnum() or unicodedata.category(character)[0] == "M")


def border(left: str, right: str) -> str:
    """Return the kinds of characters that meet between two words, as two characters.

    "a" is any letter or digit of a script with spaces, "字" one of other scripts; any other
    character stands for itself.
    """
    return _kind(left[-1]) + _kind(right[0])


def learn_spaces(lines: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Return the borders at which most words are spaced, without "aa", which always has a space.

    Args:
        lines: normalised lines and their words.
    """
    total, spaces = Counter[str](), Counter[str]()
    for line, words in lines:
        borders = _borders(line, words)
        total.update(pair for pair, _ in borders)
        spaces.update(pair for pair, has_space in borders if has_space and pair != "aa")
    return tuple(
        sorted(p for p, count in spaces.items() if count >= LEAST and 2 * count > total[p])
    )


def _borders(line: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the borders between words and whether each has a space; none if `words` do not fit."""
    borders = []
    place = len(words[0]) if words else 0
    for left, right in pairwise(words):
        has_space = line[place : place + 1] == " "
        borders.append((border(left, right), has_space))
        place += has_space + len(right)
    return borders if place == len(line) else []  # lower-casing can lengthen a word


def _kind(character: str) -> str:
    if is_spaced(character):
        return "a"
    return "字" if character.isalnum() else character
