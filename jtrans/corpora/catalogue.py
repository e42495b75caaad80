"""The catalogue: one declarative entry for each corpus that has a name.

An entry says what the corpus is and how it is prepared by default; its `load` delivers the raw
text. To add a corpus, write an entry and, where its raw format is new, a reader beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.errors import CorpusError, did_you_mean

if TYPE_CHECKING:
    from jtrans.corpora.grammar import GrammarPair


@dataclass(frozen=True)
class Entry:
    """One corpus of the catalogue.

    Attributes:
        name: what users type.
        title: what it is, in one sentence.
        languages: source and target.
        sentences: pairs of each split, before cleaning.
        licence: under which its text may be used.
        citation: what to cite.
        origin: where its text comes from.
        options: how it is prepared by default, as `PrepareOptions` names them.
        load: delivers the raw text.
    """

    name: str
    title: str
    languages: tuple[str, str]
    sentences: Mapping[str, int]
    licence: str
    citation: str
    origin: str
    options: Mapping[str, str | int | float | bool]
    load: Callable[[], Corpus]


def find_entry(name: str) -> Entry:
    """Return the entry called `name`.

    Raises:
        CorpusError: there is none.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = did_you_mean(name, CATALOGUE)
    raise CorpusError(
        f"no corpus called {name} in the catalogue",
        hint=f"did you mean {near}?"
        if near
        else "jtrans corpora lists them; your own files: jtrans prepare --train PREFIX "
        "--valid PREFIX --languages de-en --out DIR",
        kind="corpus.unknown",
    )


def _load_grammar() -> Corpus:
    from jtrans.corpora import grammar

    splits = {name: _grammar_text(pairs) for name, pairs in grammar.splits().items()}
    return Corpus("grammar-de-en", ("de", "en"), splits)


def _grammar_text(pairs: Sequence[GrammarPair]) -> ParallelText:
    return ParallelText(
        source=[pair.source for pair in pairs],
        target=[pair.target for pair in pairs],
        origin=("built in",),
        gold=Gold(
            source_words=[" ".join(pair.source_words) for pair in pairs],
            target_words=[" ".join(pair.target_words) for pair in pairs],
            alignments=[" ".join(f"{s}-{t}" for s, t in pair.alignment) for pair in pairs],
            source_tags=[" ".join(pair.source_tags) for pair in pairs],
        ),
    )


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="grammar-de-en",
            title="Made by a bilingual grammar with German word order; gold alignments and tags",
            languages=("de", "en"),
            sentences={"train": 20_000, "valid": 500, "test": 500},
            licence="MIT, as jtrans itself",
            citation="jtrans, corpora/grammar.py",
            origin="built in, nothing to download",
            # most words whole (short for joint models), word forms never seen still in pieces;
            # correct by construction, so the ratio need not hold
            options={"bpe": "joint", "bpe_merges": 2_000, "max_ratio": 3.0},
            load=_load_grammar,
        ),
    )
}
