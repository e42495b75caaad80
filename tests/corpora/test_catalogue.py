"""The catalogue: every entry delivers what it promises."""

from __future__ import annotations

import pytest

from jtrans.corpora.catalogue import CATALOGUE, find_entry
from jtrans.corpora.parallel import Corpus
from jtrans.data.prepare_options import PrepareOptions
from jtrans.errors import CorpusError
from jtrans.text.pipeline import TextSide


@pytest.fixture(scope="module")
def grammar() -> Corpus:
    return find_entry("grammar-de-en").load()


def test_the_built_in_corpus_has_the_size_the_catalogue_says(grammar) -> None:
    entry = find_entry("grammar-de-en")
    assert {name: len(text) for name, text in grammar.splits.items()} == dict(entry.sentences)
    assert (grammar.name, grammar.languages) == (entry.name, entry.languages)


def test_gold_words_of_the_built_in_corpus_are_those_of_its_segmentation(grammar) -> None:
    sides = [TextSide(language) for language in grammar.languages]
    text = grammar.splits["test"]
    assert [" ".join(sides[0].segment(line)) for line in text.source] == text.gold.source_words
    assert [" ".join(sides[1].segment(line)) for line in text.target] == text.gold.target_words


def test_gold_alignments_of_the_built_in_corpus_point_at_words(grammar) -> None:
    gold = grammar.splits["valid"].gold
    for source, target, links in zip(
        gold.source_words, gold.target_words, gold.alignments, strict=True
    ):
        sizes = len(source.split()), len(target.split())
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert pairs
        assert all(s < sizes[0] and t < sizes[1] for s, t in pairs)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_found_complete_and_has_usable_options(name) -> None:
    entry = find_entry(name)
    assert all([entry.title, entry.licence, entry.citation, entry.origin])
    assert {"train", "valid"} <= set(entry.sentences)
    PrepareOptions(**entry.options)


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(CorpusError, match="no corpus called gramar-de-en") as caught:
        find_entry("gramar-de-en")
    assert caught.value.hint == "did you mean grammar-de-en?"
    with pytest.raises(CorpusError) as caught:
        find_entry("xyz")
    assert "jtrans corpora lists them" in str(caught.value.hint)
