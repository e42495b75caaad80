"""BPE-dropout: different pieces of the same words in every epoch, reproducibly."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.bpe_dropout import BpeDropout, make_bpe_dropout
from jtrans.data.ids import IGNORE
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.text.pipeline import TextPipeline

NOUNS = ["hund", "katze", "vogel", "fisch", "maus", "pferd"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    lines = [f"der {a} sieht den {b} und {c}" for a in NOUNS for b in NOUNS for c in NOUNS]
    tags = ["DET NOUN VERB DET NOUN CCONJ NOUN"] * len(lines)
    entities = ["O B-PER O O B-PER O LOC"] * len(lines)
    # rare words, so that the vocabulary has small pieces, too
    letters = Random(1)
    rare = ["".join(letters.choices("abdefghiklmnoprstuvz", k=9)) for _ in range(120)]
    lines, tags, entities = lines + rare, tags + ["X"] * 120, entities + ["O"] * 120
    target = [f"{line[::-1]} x" for line in lines]
    gold = Gold(lines, target, [""] * len(lines), tags, entities)
    splits = {
        "train": ParallelText(lines, target, gold=gold),
        "valid": ParallelText(["ein Meer 7"], ["ein Meer 7"]),
    }
    folder: Path = tmp_path_factory.mktemp("dropout") / "animals"
    options = PrepareOptions(bpe_merges=60, max_ratio=3)
    return prepare(Corpus("animals", ("de", "en"), splits), folder, options=options, workers=1)


def dropout(corpus: PreparedCorpus, rate: float = 0.3, seed: int = 1) -> BpeDropout:
    return BpeDropout(corpus.pairs("train"), corpus.pipeline, rate=rate, seed=seed)


def test_long_work_is_reported_as_it_goes_on(
    corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.data.bpe_dropout.BLOCK", 100)
    reports: list[int] = []
    drawn = make_bpe_dropout(corpus, 0.3, 1, longest=None, at_work=lambda: reports.append(1))
    blocks = 2 * math.ceil(len(corpus.pairs("train")) / 100)  # of both sides
    assert drawn is not None and len(reports) == blocks
    drawn.epoch(0)
    assert len(reports) == 2 * blocks


def test_every_epoch_has_the_same_words_in_other_pieces(corpus: PreparedCorpus) -> None:
    drawn, plain = dropout(corpus), corpus.pairs("train")
    epochs = [drawn.epoch(number) for number in range(3)]
    for pairs in epochs:
        assert len(pairs) == len(plain)
        for name in ("source", "target"):
            side, new, old = (getattr(each, name) for each in (corpus.pipeline, pairs, plain))
            for i in range(0, len(plain), 7):
                assert side.words(new[i]) == side.words(old[i])
                assert new.lengths[i] == len(new[i])
    ids = [pairs.source.flat[0].tolist() for pairs in (*epochs, plain)]
    assert all(ids[i] != ids[j] for i in range(4) for j in range(i))


def test_an_epoch_does_not_depend_on_those_before(corpus: PreparedCorpus) -> None:
    first, second = dropout(corpus), dropout(corpus)
    for epoch in range(3):
        first.epoch(epoch)
    for name in ("source", "target"):
        ids, offsets = getattr(first.epoch(5), name).flat
        other_ids, other_offsets = getattr(second.epoch(5), name).flat
        assert np.array_equal(ids, other_ids) and np.array_equal(offsets, other_offsets)


def test_another_seed_draws_other_pieces(corpus: PreparedCorpus) -> None:
    ids = [dropout(corpus, seed=seed).epoch(0).target.flat[0].tolist() for seed in (1, 2)]
    assert ids[0] != ids[1]


def test_the_same_word_is_split_in_several_ways_within_an_epoch(corpus: PreparedCorpus) -> None:
    drawn = dropout(corpus, rate=0.5).epoch(0).source
    assert len({tuple(drawn[i][:3].tolist()) for i in range(len(drawn))}) > 3


def test_both_sides_draw_on_their_own(corpus: PreparedCorpus) -> None:
    pairs, side = corpus.pairs("train"), corpus.pipeline.source
    same = replace(pairs, target=pairs.source)
    drawn = BpeDropout(same, TextPipeline(side, side), rate=0.3, seed=1).epoch(0)
    assert drawn.source.flat[0].tolist() != drawn.target.flat[0].tolist()


@pytest.mark.parametrize("block", [100, 100_000])
def test_labels_follow_the_pieces(
    corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("jtrans.data.bpe_dropout.BLOCK", block)
    pairs = dropout(corpus, rate=0.9).epoch(0)
    side = corpus.pipeline.source
    names = corpus.label_names
    for i in range(0, len(NOUNS) ** 3, 11):
        pieces = [side.vocabulary.token(int(token)) for token in pairs.source[i]]
        pos, ner = pairs.labels["pos"][i].tolist(), pairs.labels["ner"][i].tolist()
        assert len(pieces) == len(pos) == len(ner)
        assert pos[-1] == ner[-1] == IGNORE
        starts = [j for j in range(len(pieces)) if j == 0 or not pieces[j - 1].endswith("@@")][:-1]
        words = ["DET", "NOUN", "VERB", "DET", "NOUN", "CCONJ", "NOUN"]
        assert [names["pos"][pos[j]] for j in starts] == words
        for j in range(len(pieces) - 1):
            is_first = j in starts
            word = sum(start <= j for start in starts) - 1
            kind = {1: "PER", 4: "PER", 6: "LOC"}.get(word)
            expected = "O" if kind is None else f"{'B' if is_first else 'I'}-{kind}"
            assert names["ner"][ner[j]] == expected
    for i in range(len(NOUNS) ** 3, len(pairs)):
        assert {names["pos"][label] for label in pairs.labels["pos"][i][:-1]} == {"X"}


def test_a_side_without_bpe_stays_as_it_is(tmp_path: Path) -> None:
    text = ParallelText(["ab ab", "abc abc"], ["x y", "y x"])
    splits = {"train": text, "valid": ParallelText(["ab"], ["x"])}
    options = PrepareOptions(bpe="none")
    corpus = prepare(Corpus("none", ("de", "en"), splits), tmp_path / "out", options=options)
    pairs = dropout(corpus).epoch(0)
    assert np.array_equal(pairs.source.flat[0], corpus.pairs("train").source.flat[0])
