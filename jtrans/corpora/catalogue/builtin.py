"""The corpora that come with jtrans, nothing to download: grammar-de-en and grammar-zh-en.

Each is one packed file in `built_in/`, made by `scripts/grammar/freeze.py`. A line of it is a pair:
its split, source, target, word alignments, and tags and entities of the source words, with tabs
between. Where two words are not separated by a blank, a `GLUE` stands between them, so that one
column holds both the raw text and its words.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Callable
from pathlib import Path

from jtrans.corpora.parallel import Corpus, Gold, ParallelText

GLUE = "|"


def built_in_file(name: str) -> Path:
    """Return the packed file of a built-in corpus."""
    return Path(__file__).parent / "built_in" / f"{name}.xz"


def load_built_in(name: str) -> Corpus:
    """Read a built-in corpus, whose name ends in its languages."""
    with lzma.open(built_in_file(name), "rt", encoding="utf-8", newline="\n") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file]
    splits = dict.fromkeys(split for split, *_ in pairs)
    languages = name.split("-")[-2:]
    return Corpus(
        name,
        (languages[0], languages[1]),
        {split: _text([cells for of, *cells in pairs if of == split]) for split in splits},
    )


def _text(pairs: list[list[str]]) -> ParallelText:
    source, target, alignments, tags, entities = map(list, zip(*pairs, strict=True))
    return ParallelText(
        source=[line.replace(GLUE, "") for line in source],
        target=[line.replace(GLUE, "") for line in target],
        origin=("built in",),
        gold=Gold(
            source_words=[line.replace(GLUE, " ") for line in source],
            target_words=[line.replace(GLUE, " ") for line in target],
            alignments=alignments,
            source_tags=tags,
            source_entities=entities,
        ),
    )


# By the name of the catalogue entry.
BUILT_IN: dict[str, Callable[[], Corpus]] = {
    name: functools.partial(load_built_in, name) for name in ("grammar-de-en", "grammar-zh-en")
}
