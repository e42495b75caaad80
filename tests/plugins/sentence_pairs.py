"""A hundred and more distinct German-English pairs as natural text with punctuation."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.corpora.parallel import ParallelText

NOUNS = {"Hund": "dog", "Mann": "man", "Tisch": "table", "Ball": "ball", "Zug": "train"}
COLOURS = {"alte": "old", "kleine": "small", "rote": "red", "neue": "new", "blaue": "blue"}
PAIRS = [
    (f"Der {colour} {noun} sieht den {other}.", f"The {COLOURS[colour]} {NOUNS[noun]} sees the "
     f"{NOUNS[other]}.")
    for colour in COLOURS for noun in NOUNS for other in NOUNS
]  # fmt: skip


def parallel_text(pairs: Sequence[tuple[str, str]], *origins: str) -> ParallelText:
    """Return pairs as the text of a split."""
    return ParallelText([s for s, _ in pairs], [t for _, t in pairs], origins)
