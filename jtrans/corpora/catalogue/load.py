"""The catalogue of named corpora.

Each TOML file in this folder describes one corpus: where its files are, how they are read and how
the text is prepared by default. To add a corpus, add a file, and a reader if its raw format is new
(`jtrans.corpora.formats.readers`).

The text of grammar-de-en and grammar-zh-en comes with jtrans, each in a compressed file in
`built_in/`, written by `scripts/grammar/freeze.py`. Each line is a pair, with columns separated by
tabs: split, source, target, word alignments, and tags and entities of the source words. Where no
space separates two words, a `GLUE` stands between them, so that a column holds raw text and words.
"""

from __future__ import annotations

import lzma
from pathlib import Path

from jtrans.corpora.entry import Entry, Options, read_entry, swap_name
from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.errors import CorpusError, name_hint

ENTRIES = Path(__file__).parent
GLUE = "|"


def find_entry(name: str) -> Entry:
    """Return the entry called `name`; a name with its languages swapped gives the swapped entry.

    Raises:
        CorpusError: there is no such corpus.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if name.count("-") >= 2 and (other := CATALOGUE.get(swap_name(name))) and other.both_ways:
        return _swap(other)
    names = [
        *CATALOGUE,
        *(swap_name(entry.name) for entry in CATALOGUE.values() if entry.both_ways),
    ]
    longer = [other for other in names if other.startswith(f"{name}-")]
    listing = "jtrans corpora lists them; your own files: jtrans prepare --train PREFIX "
    listing += "--valid PREFIX --languages de-en --out DIR"
    raise CorpusError(
        f"no corpus called {name} in the catalogue",
        hint=f"did you mean {' or '.join(longer)}?" if longer else name_hint(name, names, listing),
        kind="corpus.unknown",
    )


def is_in_catalogue(name: str) -> bool:
    """Return whether `find_entry` finds an entry of this name."""
    try:
        find_entry(name)
    except CorpusError:
        return False
    return True


def _swap(entry: Entry) -> Entry:
    changes = {
        "name": swap_name(entry.name),
        "title": f"{entry.title} (the other direction of {entry.name})",
        "languages": (entry.languages[1], entry.languages[0]),
        "options": _swap_sides(entry.options),
        "ready_options": _swap_sides(entry.ready_options),
        "is_swapped": True,
    }
    return entry.model_copy(update=changes)


def _swap_sides(options: Options) -> Options:
    swapped = {"source_segment": "target_segment", "target_segment": "source_segment"}
    return {swapped.get(name, name): value for name, value in options.items()}


def built_in_file(name: str) -> Path:
    """Return the compressed file of a built-in corpus."""
    return ENTRIES / "built_in" / f"{name}.xz"


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


def _read_all() -> dict[str, Entry]:
    entries = map(read_entry, sorted(ENTRIES.glob("*.toml")))
    # corpora without downloads come first: `jtrans corpora` ends by suggesting the first
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: bool(entry.sources))}


CATALOGUE: dict[str, Entry] = _read_all()
