"""A valid split taken from train: in the one pass, with what a valid split of one's own gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.folders import contents
from plugins.listener import Listener
from plugins.sentence_pairs import PAIRS, parallel_text

from jtrans.corpora.parallel import Corpus, Gold
from jtrans.errors import CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare

SMALL = PrepareOptions(bpe_merges=30)
TEST = PAIRS[90:100]
# clean pairs, then one of unlike lengths, one that stands in test (clean as far as this goes, but
# the 81st: not taken), one that repeats a pair that goes to valid, one that repeats another
TRAIN = [*PAIRS[:80], ("Ja.", "a b c d e f g"), TEST[0], PAIRS[4], PAIRS[5]]
EVERY = 5


SPLITS = {"train": parallel_text(TRAIN, "train"), "test": parallel_text(TEST, "test")}
CORPUS = Corpus("mine", ("de", "en"), SPLITS, EVERY)


def test_of_46_pairs_the_23rd_and_the_46th_are_valid(tmp_path: Path) -> None:
    """Property E6 of docs/systems.md, for IWSLT14."""
    corpus = Corpus("mine", ("de", "en"), {"train": parallel_text(PAIRS[:46], "train")}, 23)
    prepared = prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    assert prepared.raw_lines("valid", "source") == [PAIRS[22][0], PAIRS[45][0]]
    assert len(prepared.pairs("train")) == 44


def test_every_fifth_clean_pair_goes_to_valid(tmp_path: Path) -> None:
    prepared = prepare(CORPUS, tmp_path / "out", options=SMALL, workers=1)
    expected = PAIRS[4:80:5]
    assert prepared.raw_lines("valid", "source") == [source for source, _ in expected]
    assert prepared.raw_lines("valid", "target") == [target for _, target in expected]
    assert prepared.splits == ["train", "valid", "test"]
    assert len(prepared.pairs("train")) == 64


def test_what_a_strict_ratio_would_drop_is_counted_in_train_alone(tmp_path: Path) -> None:
    pairs = [(f"Satz {number}", f"This is sentence {number}") for number in range(10)]
    corpus = Corpus("mine", ("de", "en"), {"train": parallel_text(pairs, "train")}, EVERY)
    prepared = prepare(corpus, tmp_path / "out", options=PrepareOptions(bpe="none"), workers=1)
    cleaning = prepared.info["cleaning"]
    assert (cleaning["kept"], cleaning["held_out"], cleaning["strict_ratio"]) == (8, 2, 8)


def test_it_has_all_references_that_train_has(tmp_path: Path) -> None:
    second = [f"{target} again" for _, target in PAIRS]
    train = parallel_text(PAIRS, "train")
    train = replace(train, references=(train.target, second))
    corpus = Corpus("mine", ("de", "en"), {"train": train}, EVERY)
    prepared = prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    targets = prepared.raw_lines("valid", "target")
    assert prepared.references("valid") == [targets, [f"{line} again" for line in targets]]
    assert prepared.info["splits"]["valid"]["sha256"].keys() == {"source", "target", "reference 2"}


def test_it_is_what_the_same_valid_split_of_ones_own_gives(tmp_path: Path) -> None:
    ours = prepare(CORPUS, tmp_path / "ours", options=SMALL, workers=1)
    valid = [pair for i, pair in enumerate(PAIRS[:80]) if (i + 1) % EVERY == 0]
    train = [pair for i, pair in enumerate(TRAIN) if i >= 80 or (i + 1) % EVERY]
    splits = {"train": parallel_text(train, "train"), "valid": parallel_text(valid, "valid")}
    given = replace(CORPUS, splits={**splits, "test": CORPUS.splits["test"]}, valid_every=None)
    theirs = prepare(given, tmp_path / "theirs", options=SMALL, workers=1)
    one, other = contents(tmp_path / "ours"), contents(tmp_path / "theirs")
    infos = [json.loads(files.pop("corpus.json")) for files in (one, other)]
    assert one == other
    assert infos[0]["splits"]["valid"]["sha256"] == infos[1]["splits"]["valid"]["sha256"]
    assert ours.info["cleaning"] == {**theirs.info["cleaning"], "held_out": 16}


def test_all_text_is_segmented_once_and_every_pair_is_accounted_for(tmp_path: Path) -> None:
    listener = Listener()
    prepared = prepare(CORPUS, tmp_path / "out", options=SMALL, workers=1, progress=listener)
    pairs = len(TRAIN) + len(TEST)
    assert ("Segmenting", pairs, pairs) in listener.advances
    assert listener.lines["Reading"] == f"train {len(TRAIN)} · test {len(TEST)}"
    assert listener.lines["Valid"] == "16 pairs: 1 of 5 that cleaning kept"
    cleaning = prepared.info["cleaning"]
    assert cleaning["dropped"]["in valid/test"] == 2 and cleaning["dropped"]["duplicate"] == 1
    total = cleaning["kept"] + cleaning["held_out"] + sum(cleaning["dropped"].values())
    assert total == len(TRAIN) == prepared.info["splits"]["train"]["lines"]


def test_neither_workers_nor_shards_nor_an_interrupt_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(CORPUS, tmp_path / "whole", options=SMALL, workers=1)
    monkeypatch.setattr("jtrans.preparation.shards.SMALLEST_SHARD", 7)
    open_path = Path.open

    def interrupt(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "valid.00003.source.ids" in path.name and "w" in mode:
            raise KeyboardInterrupt
        return open_path(path, mode, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "open", interrupt)
        prepare(CORPUS, tmp_path / "out", options=SMALL, workers=1)
    listener = Listener()
    prepare(CORPUS, tmp_path / "out", options=SMALL, workers=3, progress=listener)
    assert "Continuing" in listener.lines
    assert contents(tmp_path / "out").keys() == contents(tmp_path / "whole").keys()
    names = [contents(tmp_path / one) for one in ("out", "whole")]
    for files in names:
        info = json.loads(files.pop("corpus.json"))
        assert info.pop("name") in ("out", "whole", "mine")
        files["info"] = json.dumps(info).encode()
    assert names[0] == names[1]


def test_the_same_again_is_no_work_and_another_share_needs_force(tmp_path: Path) -> None:
    prepare(CORPUS, tmp_path / "out", options=SMALL, workers=1)
    listener = Listener()
    prepare(CORPUS, tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert "Unchanged" in listener.lines and not listener.advances
    other = replace(CORPUS, valid_every=7)
    with pytest.raises(CorpusError, match="different share of train for valid"):
        prepare(other, tmp_path / "out", options=SMALL, workers=1)
    prepare(other, tmp_path / "out", options=SMALL, workers=1, force=True)


def test_gold_alignments_go_with_their_pairs(tmp_path: Path) -> None:
    words = [[line.replace(".", " .") for line in side] for side in zip(*TRAIN, strict=True)]
    links = [f"{i % 3}-{i % 2}" for i in range(len(TRAIN))]
    gold = Gold(words[0], words[1], links, ["X " * len(line.split()) for line in words[0]])
    splits = {**CORPUS.splits, "train": replace(CORPUS.splits["train"], gold=gold)}
    prepare(replace(CORPUS, splits=splits), tmp_path / "out", options=SMALL, workers=1)
    lines = (tmp_path / "out/text/valid.alignments.txt").read_text("utf-8").splitlines()
    assert lines == links[4:80:5]


def test_too_few_pairs_for_a_share_are_refused(tmp_path: Path) -> None:
    corpus = replace(CORPUS, valid_every=1000)
    with pytest.raises(CorpusError, match=r"too few training pairs \(81; .* 1 of 1000"):
        prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    assert not list(tmp_path.iterdir())


def test_a_valid_split_that_is_there_is_taken(tmp_path: Path) -> None:
    splits = {**CORPUS.splits, "valid": parallel_text(PAIRS[80:90], "valid")}
    corpus = replace(CORPUS, splits=splits)
    assert len(prepare(corpus, tmp_path / "out", options=SMALL, workers=1).pairs("valid")) == 10
