"""Gold alignments and tags of a corpus, in the words and pieces that come out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.listener import Listener

from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.prepared import IGNORE
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare


def gold_corpus() -> Corpus:
    source, target = ["a b", "", "c d e"], ["x y", "z", "u v w"]
    gold = Gold(source, target, ["0-0 1-1", "", "0-2"], ["A B", "", "C D E"])
    valid = Gold(["F g"], ["h i"], ["1-0"], ["F G"])
    splits = {
        "train": ParallelText(source, target, gold=gold),
        "valid": ParallelText(["F g"], ["h i"], gold=valid),
    }
    return Corpus("gold", ("de", "en"), splits)


@pytest.mark.parametrize("lowercase", [False, True])
def test_gold_alignments_and_tags_follow_the_cleaned_pairs(tmp_path: Path, lowercase: Any) -> None:
    options = PrepareOptions(bpe="none", lowercase=lowercase)
    prepare(gold_corpus(), tmp_path / "out", options=options, workers=1)
    text = tmp_path / "out" / "text"
    assert (text / "train.alignments.txt").read_text("utf-8") == "0-0 1-1\n0-2\n"
    assert (text / "train.source.tags.txt").read_text("utf-8") == "A B\nC D E\n"
    assert (text / "valid.alignments.txt").read_text("utf-8") == "1-0\n"


def test_gold_data_follows_the_words_into_another_segmentation(tmp_path: Path) -> None:
    options = PrepareOptions(bpe="none", max_ratio=9, source_segment="character")
    prepare(gold_corpus(), tmp_path / "out", options=options, workers=1)
    text = tmp_path / "out" / "text"
    # "a b" is a, space, b; "c d e" is c, space, d, space, e
    assert (text / "train.alignments.txt").read_text("utf-8") == "0-0 2-1\n0-2\n"
    assert (text / "train.source.tags.txt").read_text("utf-8") == "A X B\nC X D X E\n"


def test_gold_data_of_other_words_is_left_out(tmp_path: Path) -> None:
    corpus = gold_corpus()
    train = replace(corpus.splits["train"], source=["A other", "", "c d e"])
    corpus = Corpus("gold", ("de", "en"), {**corpus.splits, "train": train})
    listener = Listener()
    options = PrepareOptions(bpe="none")
    prepare(corpus, tmp_path / "out", options=options, workers=1, progress=listener)
    text = tmp_path / "out" / "text"
    assert (text / "train.alignments.txt").read_text("utf-8") == "\n0-2\n"
    assert "gold alignments of 1 pair left out" in listener.warnings[-1]


def test_gold_tags_become_labels_of_the_pieces(tmp_path: Path) -> None:
    source = ["Anna sieht Neu Ulm .", "Neu Ulm sieht Anna ."]
    gold = Gold(
        source, ["x"] * 2, [""] * 2,
        ["PROPN VERB PROPN PROPN PUNCT", "PROPN PROPN VERB PROPN PUNCT"],
        ["PER O LOC LOC O", "B-LOC I-LOC O B-PER O"],
    )  # fmt: skip
    text = ParallelText(source, ["x"] * 2, gold=gold)
    valid = ParallelText(["Anna sieht"], ["x"])
    options = PrepareOptions(bpe_merges=1, max_ratio=9, source_segment="whitespace")
    corpus = Corpus("tags", ("de", "en"), {"train": text, "valid": valid})
    prepared = prepare(corpus, tmp_path / "out", options=options, workers=1)
    names, train = prepared.label_names, prepared.pairs("train")
    vocabulary = prepared.pipeline.source.vocabulary
    pieces = [vocabulary.token(int(i)) for i in train.source[0]]
    pos = [names["pos"][i] if i >= 0 else "-" for i in train.labels["pos"][0]]
    ner = [names["ner"][i] if i >= 0 else "-" for i in train.labels["ner"][0]]
    shown = dict(zip(pieces, zip(pos, ner, strict=True), strict=True))
    assert shown["A@@"] == ("PROPN", "B-PER") and shown["N@@"] == ("PROPN", "B-LOC")
    assert shown["U@@"] == ("PROPN", "I-LOC") and shown["</s>"] == ("-", "-")
    assert names["ner"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert (prepared.pairs("valid").labels["pos"][0] == IGNORE).all()
