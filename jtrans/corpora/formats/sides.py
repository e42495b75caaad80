"""How headings, JSON objects and XML name the two sides: by language tags or by words."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

# What the name of a language looks like, with a script or region, unlike "de_url" and "en-route".
_TAG = re.compile(r"[A-Za-z]{2,3}([-_][A-Z][a-z]{3})?([-_]([A-Z]{2}|[0-9]{3})|-[a-z]{2})?")
_WORDS = (("source", "src"), ("target", "tgt"))


def fits_language(language: str, tag: str) -> bool:
    """Return whether text tagged `tag` is of `language`: "de" includes "de-AT", "zh-CN" "zh"."""
    wanted, tagged = plain_tag(language), plain_tag(tag)
    return wanted == tagged or tagged.startswith(f"{wanted}-") or wanted.startswith(f"{tagged}-")


def plain_tag(language: str) -> str:
    """Return a language tag in lower case, with hyphens: "pt-br" for "pt_BR"."""
    return language.lower().replace("_", "-")


@functools.lru_cache(maxsize=256)  # the objects of a file have the same few sets of names
def named_sides(
    names: tuple[str, ...], languages: tuple[str, str], *, mixed: bool = False
) -> list[tuple[int, int]]:
    """Return the possible positions of source and target among names, the most certain first.

    Both are named in the same way: by their languages, by words, or by languages of which some
    have another region. If `mixed`, one may also be named by its language and the other by a word.
    """
    exact = [_places(names, [language]) for language in languages]
    words = [_places(names, each) for each in _WORDS]
    similar = [[i for i, name in enumerate(names) if _is_tag_of(each, name)] for each in languages]
    ways = [exact, words, [exact[side] + similar[side] for side in (0, 1)]]
    if mixed:
        ways.append([exact[side] + words[side] + similar[side] for side in (0, 1)])
    pairs = [(s, t) for sources, targets in ways for s in sources for t in targets if s != t]
    return list(dict.fromkeys(pairs))


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the positions of the wanted names, those with the same spelling first."""
    plain = [plain_tag(word) for word in wanted]
    places = [i for i, name in enumerate(names) if plain_tag(name) in plain]
    return sorted(places, key=lambda place: names[place] not in wanted)


def _is_tag_of(language: str, name: str) -> bool:
    return _TAG.fullmatch(name) is not None and fits_language(language, name)
