"""Long sentences: several statements of a grammar joined into one."""

from __future__ import annotations

from collections.abc import Callable

from scripts.grammar.shared.words import Phrase


def joined(part: Callable[[int], Phrase], longest: int) -> Phrase:
    """Join statements until both sides are longer than any sentence of everyday length.

    Args:
        part: makes the statement for place 0, 1, 2 ..., from place 1 on with the words that link
            it to the statement before; each ends in a full stop.
        longest: words of the longest everyday sentence.
    """
    whole, place = part(0), 0
    while min(len(whole.source), len(whole.target)) <= longest:
        place += 1
        whole = Phrase(whole.source[:-1], whole.target[:-1]) + part(place)
    return whole
