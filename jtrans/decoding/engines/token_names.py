"""The names of a model's tokens in programs that tell tokens apart by their names."""

from __future__ import annotations

from collections import Counter

from jtrans.text.vocabulary import SPECIALS, Vocabulary


def token_names(vocabulary: Vocabulary) -> list[str]:
    """Return a name for every id: the token itself, wherever that is unique.

    Some published dictionaries list a token twice. The entry that texts are encoded with, or that
    of a special token, keeps the name; the id is added to the names of others, as in ``the#17``.
    """
    counts = Counter(vocabulary.tokens)
    names = list(vocabulary.tokens)
    taken = set(names)
    for number, token in enumerate(names):
        encodes = token not in SPECIALS and vocabulary.ids([token]) == [number]
        if counts[token] == 1 or number < len(SPECIALS) or encodes:
            continue
        name = f"{token}#{number}"
        while name in taken:
            name += "#"
        taken.add(name)
        names[number] = name
    return names
