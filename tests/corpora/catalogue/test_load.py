"""The catalogue: every entry delivers what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from jtrans.corpora.catalogue.load import CATALOGUE, find_entry, load_built_in
from jtrans.corpora.entry import ReaderName, read_entry
from jtrans.corpora.parallel import Corpus
from jtrans.errors import ConfigError, CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.text.pipeline import TextSide


@pytest.fixture(scope="module")
def grammar() -> Corpus:
    return load_built_in("grammar-de-en")


def test_the_built_in_corpus_has_the_size_the_catalogue_says(grammar: Corpus) -> None:
    entry = find_entry("grammar-de-en")
    assert {name: len(text) for name, text in grammar.splits.items()} == dict(entry.sentences)
    assert (grammar.name, grammar.languages) == (entry.name, entry.languages)


def test_gold_words_of_the_built_in_corpus_are_those_of_its_segmentation(grammar: Corpus) -> None:
    sides = [TextSide(language) for language in grammar.languages]
    text = grammar.splits["test"]
    assert text.gold is not None
    assert [" ".join(sides[0].segment(line)) for line in text.source] == text.gold.source_words
    assert [" ".join(sides[1].segment(line)) for line in text.target] == text.gold.target_words


def test_gold_alignments_of_the_built_in_corpus_point_at_words(grammar: Corpus) -> None:
    gold = grammar.splits["valid"].gold
    assert gold is not None
    for source, target, links in zip(
        gold.source_words, gold.target_words, gold.alignments, strict=True
    ):
        sizes = len(source.split()), len(target.split())
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert pairs
        assert all(s < sizes[0] and t < sizes[1] for s, t in pairs)


DOWNLOADED = [name for name, entry in CATALOGUE.items() if entry.sources]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_found_complete_and_has_usable_options(name: str) -> None:
    entry = find_entry(name)
    assert all([entry.title, entry.licence, entry.citation, entry.origin])
    assert {"train", "valid"} <= set(entry.sentences)
    assert name.endswith("-".join(entry.languages))
    PrepareOptions(**entry.options)
    PrepareOptions(**{**entry.options, **entry.ready_options})


@pytest.mark.parametrize("name", DOWNLOADED)
def test_every_part_of_an_entry_can_be_read_and_every_split_is_made(name: str) -> None:
    entry = find_entry(name)
    choices = [
        choice for parts in entry.parts.values() for part in parts for choice in part.choices
    ]
    assert {choice.reader for choice in choices} <= set(get_args(ReaderName))
    splits = {*entry.parts, *entry.hold_out, *(["valid"] if entry.valid_every else [])}
    assert splits == set(entry.sentences)
    origins = {part.origin for parts in entry.parts.values() for part in parts} - {""}
    assert origins <= {source.file for source in entry.sources}


@pytest.mark.parametrize("name", DOWNLOADED)
def test_mirrors_are_https_and_checksums_whole_or_left_out(name: str) -> None:
    for source in find_entry(name).sources:
        for mirror in source.mirrors:
            assert mirror.url.startswith("https://")
            assert re.fullmatch("([0-9a-f]{64})?", mirror.sha256)
            assert mirror.size >= 0


@pytest.mark.parametrize(
    "name", ["iwslt14", "iwslt15", "multi30k", "tatoeba", "wmt14", "wmt17", "nist"]
)
def test_the_corpora_of_the_papers_have_names(name: str) -> None:
    assert any(entry.startswith(name) for entry in CATALOGUE)


def test_a_name_with_swapped_languages_swaps_the_options() -> None:
    entry, turned = find_entry("iwslt15-vi-en"), find_entry("iwslt15-en-vi")
    assert turned.languages == ("en", "vi")
    assert (turned.name, turned.folder) == ("iwslt15-en-vi", entry.name)
    chinese = find_entry("wmt17-en-zh")
    assert chinese.options["target_segment"] == "jieba"
    assert chinese.options["source_segment"] == "moses"


def test_a_corpus_with_several_references_has_no_other_direction() -> None:
    with pytest.raises(CorpusError, match="no corpus called nist-en-zh") as caught:
        find_entry("nist-en-zh")
    assert caught.value.hint == "did you mean nist-zh-en?"


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(CorpusError, match="no corpus called gramar-de-en") as caught:
        find_entry("gramar-de-en")
    assert caught.value.hint == "did you mean grammar-de-en?"
    with pytest.raises(CorpusError) as caught:
        find_entry("multi30k")
    assert caught.value.hint == "did you mean multi30k-de-en or multi30k-en-de?"
    with pytest.raises(CorpusError) as caught:
        find_entry("xyz")
    assert "jtrans corpora lists them" in str(caught.value.hint)


ENTRY = """
title = "Mine"
languages = ["de", "en"]
licence = "MIT"
citation = "none"
origin = "here"
options = { bpe_merges = 10 }
sentences = { train = 10, valid = 2 }
parts = { train = [{ reader = "tsv", source = "a.tsv", columns = [1, 0] }] }
"""


def test_an_entry_is_read_with_the_types_of_its_values(tmp_path: Path) -> None:
    (tmp_path / "mine-de-en.toml").write_text(ENTRY, encoding="utf-8")
    entry = read_entry(tmp_path / "mine-de-en.toml")
    assert (entry.name, entry.languages, entry.options) == (
        "mine-de-en", ("de", "en"), {"bpe_merges": 10},
    )  # fmt: skip
    [part] = entry.parts["train"]
    assert [(choice.reader, choice.columns) for choice in part.choices] == [("tsv", (1, 0))]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence", "license", "licence: field required"),
        ('"tsv"', '"tvs"', "parts.train.0.choices.0.reader: input should be 'plain', "),
        ("columns", "column", "unknown key parts.train.0.choices.0.column"),
        ("train = 10", "train = 0", "sentences.train: input should be greater than 0"),
    ],
)
def test_a_mistake_in_an_entry_is_named(tmp_path: Path, old: Any, new: Any, message: str) -> None:
    path = tmp_path / "mine-de-en.toml"
    path.write_text(ENTRY.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_entry(path)
    assert caught.value.message.startswith(message)
    assert caught.value.where == str(path)
