"""The catalogue: every corpus that has a name.

A TOML file in this folder says what a corpus is, where its files are, how they are read and how
the text is prepared by default. To add a corpus, add a file; and if its raw format is new, a
reader (`jtrans.corpora.formats.readers`).
"""

from __future__ import annotations

import functools
from pathlib import Path

from jtrans.corpora.catalogue.builtin import BUILT_IN
from jtrans.corpora.entry import Entry, read_entry, swap_name, swap_options
from jtrans.corpora.parallel import Corpus
from jtrans.errors import CorpusError, name_hint

ENTRIES = Path(__file__).parent


def find_entry(name: str) -> Entry:
    """Return the entry called `name`, or the corpus whose languages it swaps.

    Raises:
        CorpusError: there is none.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if name.count("-") >= 2 and (other := CATALOGUE.get(swap_name(name))) and other.both_ways:
        return swap(other)
    both_ways = (swap_name(entry.name) for entry in CATALOGUE.values() if entry.both_ways)
    lists = "jtrans corpora lists them; your own files: jtrans prepare --train PREFIX "
    lists += "--valid PREFIX --languages de-en --out DIR"
    raise CorpusError(
        f"no corpus called {name} in the catalogue",
        hint=name_hint(name, [*CATALOGUE, *both_ways], lists),
        kind="corpus.unknown",
    )


def swap(entry: Entry) -> Entry:
    """Swap source and target."""
    name = swap_name(entry.name)
    changes = {
        "name": name,
        "title": f"{entry.title} (the other direction of {entry.name})",
        "languages": (entry.languages[1], entry.languages[0]),
        "options": swap_options(entry.options),
        "ready_options": swap_options(entry.ready_options),
        "load": functools.partial(_load, name),
        "swapped": True,
    }
    return entry.model_copy(update=changes)


def _load(name: str) -> Corpus:
    from jtrans.corpora.download.deliver import deliver

    return deliver(find_entry(name)).corpus


def _read_all() -> dict[str, Entry]:
    entries = (
        read_entry(path, BUILT_IN.get(path.stem, functools.partial(_load, path.stem)))
        for path in sorted(ENTRIES.glob("*.toml"))
    )
    # what needs no download comes first: `jtrans corpora` ends by suggesting the first
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: bool(entry.sources))}


CATALOGUE: dict[str, Entry] = _read_all()
