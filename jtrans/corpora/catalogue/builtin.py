"""The corpora that come with jtrans: made by a grammar, nothing to download."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jtrans.corpora.parallel import Corpus, Gold, ParallelText

if TYPE_CHECKING:
    from jtrans.corpora.grammar import GrammarPair


def load_grammar(languages: str) -> Corpus:
    """Make the corpus grammar-LANGUAGES, "de-en" or "zh-en"."""
    from jtrans.corpora import grammar

    made = grammar.splits(languages=languages)
    source, target = languages.split("-")
    splits = {name: grammar_text(pairs) for name, pairs in made.items()}
    return Corpus(f"grammar-{languages}", (source, target), splits)


def grammar_text(pairs: Sequence[GrammarPair]) -> ParallelText:
    """Turn pairs of a grammar into text with gold alignments, tags and entities."""
    return ParallelText(
        source=[pair.source for pair in pairs],
        target=[pair.target for pair in pairs],
        origin=("built in",),
        gold=Gold(
            source_words=[" ".join(pair.source_words) for pair in pairs],
            target_words=[" ".join(pair.target_words) for pair in pairs],
            alignments=[" ".join(f"{s}-{t}" for s, t in pair.alignment) for pair in pairs],
            source_tags=[" ".join(pair.source_tags) for pair in pairs],
            source_entities=[" ".join(pair.source_entities) for pair in pairs],
        ),
    )


# By the name of the catalogue entry.
BUILT_IN: dict[str, Callable[[], Corpus]] = {
    f"grammar-{languages}": functools.partial(load_grammar, languages)
    for languages in ("de-en", "zh-en")
}
