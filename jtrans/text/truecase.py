"""Truecasing: the first word of a sentence gets the case it has elsewhere.

"Das Haus" and "das Haus" then begin with the same word, and "Haus" keeps its capital. Only changes
that `restore` can undo are made: nothing is lost except a lower-case letter at the beginning of a
sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_SENTENCE_ENDS = frozenset(".?!…。？！")
# Tokens that may come between the end of a sentence and the first word of the next.
_OPENING = frozenset(["\"", "'", "(", "[", "„", "“", "”", "«", "»", "‘", "’", "‚", "-", "–", "—",
                      "&quot;", "&apos;", "&#91;"])  # fmt: skip


@dataclass(frozen=True)
class Truecaser:
    """The words that are lower-case within sentences."""

    small: list[str]  # the words, sorted

    @classmethod
    def learn(cls, counts: Mapping[str, int]) -> Truecaser:
        """Learn from word counts that leave out the beginnings of sentences."""
        small = [
            word
            for word, count in counts.items()
            if (capital := _capitalised(word)) != word and count >= counts.get(capital, 0)
        ]
        return cls(sorted(small))

    def apply(self, words: Sequence[str]) -> list[str]:
        """Lower-case the first word of each sentence if it is lower-case elsewhere."""
        changed = list(words)
        for i in first_words(words):
            changed[i] = self._small.get(words[i], words[i])
        return changed

    def restore(self, words: Sequence[str]) -> list[str]:
        """Write the first word of each sentence with a capital."""
        changed = list(words)
        for i in first_words(words):
            changed[i] = _capitalised(words[i])
        return changed

    @cached_property
    def _small(self) -> dict[str, str]:
        return {_capitalised(word): word for word in self.small}


def first_words(words: Sequence[str]) -> list[int]:
    """Return the positions of the first words of sentences, skipping quotes and brackets."""
    positions = []
    is_first = True
    for i, word in enumerate(words):
        if is_first and word not in _OPENING:
            positions.append(i)
            is_first = False
        if word[-1:] in _SENTENCE_ENDS and len(word.rstrip(word[-1])) == 0:
            is_first = True
    return positions


def _capitalised(word: str) -> str:
    first = word[:1].title()  # not upper(): Georgian sentences do not begin with capitals
    # "ß" and "ŉ" have no single-letter capital: they stay
    return first + word[1:] if len(first) == 1 and first.lower() == word[:1].lower() else word
