"""Gold alignments and tags of a corpus, in the words and pieces that come out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.listener import Listener

from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.ids import IGNORE
from jtrans.errors import CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.preparation.request import make_request, request_key
from jtrans.progress import Silent


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


def test_a_word_of_several_gold_words_has_their_links_and_the_tag_of_the_first(
    tmp_path: Path,
) -> None:
    corpus = gold_corpus()
    train = replace(corpus.splits["train"], source=["ab", "", "c de"])
    corpus = replace(corpus, splits={**corpus.splits, "train": train})
    prepare(corpus, tmp_path / "out", options=PrepareOptions(bpe="none"), workers=1)
    text = tmp_path / "out" / "text"
    assert (text / "train.alignments.txt").read_text("utf-8") == "0-0 0-1\n0-2\n"
    assert (text / "train.source.tags.txt").read_text("utf-8") == "A\nC D\n"


def test_gold_data_of_other_words_is_left_out(tmp_path: Path) -> None:
    corpus = gold_corpus()
    train = replace(corpus.splits["train"], source=["A other", "", "c d e"])
    corpus = Corpus("gold", ("de", "en"), {**corpus.splits, "train": train})
    listener = Listener()
    options = PrepareOptions(bpe="none")
    prepare(corpus, tmp_path / "out", options=options, workers=1, progress=listener)
    text = tmp_path / "out" / "text"
    assert (text / "train.alignments.txt").read_text("utf-8") == "\n0-2\n"
    assert "gold annotation of 1 pair left out" in listener.warnings[-1]


def corrected(corpus: Corpus, kind: str) -> Corpus:
    """Return a corpus with the same sentences, and another annotation of the first."""
    train = corpus.splits["train"]
    assert train.gold is not None
    lines = {"source_tags": ["B B", "", "C D E"], "alignments": ["0-1", "", "0-2"]}[kind]
    train = replace(train, gold=replace(train.gold, **{kind: lines}))
    return replace(corpus, splits={**corpus.splits, "train": train})


@pytest.mark.parametrize("kind", ["source_tags", "alignments"])
def test_corrected_annotation_makes_another_corpus(tmp_path: Path, kind: str) -> None:
    options, other = PrepareOptions(bpe="none"), corrected(gold_corpus(), kind)
    prepare(gold_corpus(), tmp_path / "out", options=options, workers=1)
    with pytest.raises(CorpusError, match=r"(?m)different gold annotation$"):
        prepare(other, tmp_path / "out", options=options, workers=1)
    prepare(other, tmp_path / "out", options=options, workers=1, force=True)
    listener = Listener()
    prepare(other, tmp_path / "out", options=options, workers=1, progress=listener)
    assert "Unchanged" in listener.lines


def test_work_begun_with_other_tags_is_not_used() -> None:
    corpora, options = (gold_corpus(), corrected(gold_corpus(), "source_tags")), PrepareOptions()
    keys = {request_key(make_request(corpus, options, Silent()).record) for corpus in corpora}
    assert len(keys) == 2


def test_a_corpus_prepared_before_annotation_was_recorded_is_up_to_date(tmp_path: Path) -> None:
    options, listener = PrepareOptions(bpe="none"), Listener()
    folder = prepare(gold_corpus(), tmp_path / "out", options=options, workers=1).folder
    info = json.loads((folder / "corpus.json").read_bytes())
    for split in info["splits"].values():
        del split["gold_digest"]
    (folder / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    prepare(gold_corpus(), folder, options=options, workers=1, progress=listener)
    assert "Unchanged" in listener.lines


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
