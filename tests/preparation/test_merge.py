"""Parts of a corpus, prepared on several machines with one pipeline and put together."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.folders import contents
from plugins.listener import Listener
from plugins.sentence_pairs import PAIRS, parallel_text

from jtrans.corpora.catalogue.load import load_built_in
from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError, WorkError
from jtrans.preparation.merge import merge_prepared
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare

# the second part has pairs of the first, and letters the first does not know
PARTS = [
    PAIRS[:60],
    [*PAIRS[50:90], ("Der Käfer.", "The žuk."), ("", "x"), PAIRS[3], ("Der Käfer.", "The žuk.")],
]


def corpus_of(
    *parts: list[tuple[str, str]], valid: list[tuple[str, str]] = PAIRS[100:110]
) -> Corpus:
    splits = {
        name: parallel_text(pairs, name)
        for name, pairs in {
            "train": [pair for part in parts for pair in part],
            "valid": valid,
            "test": PAIRS[110:],
        }.items()
    }
    splits["train"] = replace(splits["train"], skipped={"not UTF-8": len(parts)})
    return Corpus("mine", ("de", "en"), splits)


def learn(folder: Path, **options: Any) -> PrepareOptions:
    """Prepare the first part, learning a pipeline; return options that take it."""
    chosen = {"bpe_merges": 40, **options}
    prepare(corpus_of(PARTS[0]), folder / "one", options=PrepareOptions(**chosen), workers=1)
    rules = {name: value for name, value in options.items() if name == "deduplicate"}
    return PrepareOptions(pipeline=str(folder / "one"), **rules)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"deduplicate": False},
        {"lowercase": True, "vocabulary": "joint"},
        {"bpe": "none", "min_count": 2},
        {"truecase": True, "bpe": "separate"},
    ],
)
def test_parts_put_together_are_what_one_preparation_gives(
    tmp_path: Path, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = learn(tmp_path, **options)
    prepare(corpus_of(PARTS[1]), tmp_path / "two", options=taken, workers=1)
    prepare(corpus_of(*PARTS), tmp_path / "once", options=taken, workers=1)
    monkeypatch.setattr("jtrans.preparation.merge.SLICE", 7)
    merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    joined, once = contents(tmp_path / "all"), contents(tmp_path / "once")
    infos = [json.loads(files.pop("corpus.json")) for files in (joined, once)]
    assert joined == once
    for info in infos:
        info["splits"]["train"].pop("sha256")
        info["splits"]["train"].pop("origin")
    for figure in ("splits", "cleaning", "joint_size", "vocabulary", "pipeline_sha256"):
        assert infos[0][figure] == infos[1][figure]


def test_every_pair_is_accounted_for_where_valid_was_taken_from_a_part(tmp_path: Path) -> None:
    splits = {"train": parallel_text(PARTS[0], "train"), "test": parallel_text(PAIRS[110:], "test")}
    taken = Corpus("mine", ("de", "en"), splits, valid_size=7)
    one = prepare(taken, tmp_path / "one", options=PrepareOptions(bpe_merges=40), workers=1)
    sides = (one.raw_lines("valid", side) for side in ("source", "target"))
    prepare(
        corpus_of(PARTS[1]), tmp_path / "unlike", options=PrepareOptions(pipeline=str(one.folder))
    )
    with pytest.raises(CorpusError) as caught:
        merge_prepared([tmp_path / "one", tmp_path / "unlike"], tmp_path / "all")
    assert f"--valid {one.folder}/text/valid" in str(caught.value.hint)
    other = corpus_of(PARTS[1], valid=list(zip(*sides, strict=True)))
    prepare(other, tmp_path / "two", options=PrepareOptions(pipeline=str(one.folder)), workers=1)
    info = merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all").info
    cleaning = info["cleaning"]
    counted = cleaning["kept"] + sum(cleaning["dropped"].values()) + cleaning["held_out"]
    assert counted == info["splits"]["train"]["lines"] == len(PARTS[0]) + len(PARTS[1])


def test_pairs_with_unknown_words_are_not_compared_but_counted(tmp_path: Path) -> None:
    taken = learn(tmp_path)
    strange = [("Der Käfer.", "The žuk."), PAIRS[3]]
    for name in ("two", "three"):
        text = corpus_of([*strange, PAIRS[70 if name == "two" else 71]])
        prepare(text, tmp_path / name, options=taken, workers=1)
    listener = Listener()
    parts = [tmp_path / name for name in ("one", "two", "three")]
    merge_prepared(parts, tmp_path / "all", progress=listener)
    assert "duplicate 2" in listener.lines["Cleaning"]
    assert listener.lines["Cleaning"].endswith(" · not compared because of unknown words 2")


@pytest.mark.parametrize("side", [0, 1])
def test_unknown_words_of_one_side_are_enough(tmp_path: Path, side: int) -> None:
    """Pairs that have the same ids may differ in such words."""
    taken = learn(tmp_path)
    for name, word in (("two", "ž"), ("three", "č")):
        pair = [*PAIRS[3]]
        pair[side] += f" {word}"
        prepare(corpus_of([(pair[0], pair[1])]), tmp_path / name, options=taken, workers=1)
    parts = [tmp_path / name for name in ("one", "two", "three")]
    merged = merge_prepared(parts, tmp_path / "all")
    assert merged.info["cleaning"]["kept"] == len(PARTS[0]) + 2


def test_a_pipeline_that_is_taken_is_the_very_same(tmp_path: Path) -> None:
    taken = learn(tmp_path, truecase=True)
    listener = Listener()
    two = prepare(
        corpus_of(PARTS[1]), tmp_path / "two", options=taken, workers=1, progress=listener
    )
    one = PreparedCorpus.open(tmp_path / "one")
    assert two.pipeline.fingerprint() == one.pipeline.fingerprint()
    assert listener.lines["Pipeline"] == f"taken from {tmp_path / 'one'}, nothing learned"
    assert "BPE" not in listener.lines
    assert two.info["splits"]["train"]["unknown"]["target"] > 0
    assert "unknown in train" in listener.lines["Encoding"]
    side = two.pipeline.source
    for i, (line, _) in enumerate(PARTS[1][:20]):
        assert two.pairs("train").source[i].tolist() == side.encode(line)


def test_case_that_only_the_target_restores_is_reported(tmp_path: Path) -> None:
    taken = learn(tmp_path, truecase=True, source_segment="character", max_ratio=20)
    listener = Listener()
    text = corpus_of(PARTS[1])
    two = prepare(text, tmp_path / "two", options=taken, workers=1, progress=listener)
    assert two.pipeline.source.truecaser is None and two.pipeline.target.truecaser is not None
    assert ", truecase" in listener.lines["Segmenting"]


def test_a_preparation_with_another_pipeline_needs_force(tmp_path: Path) -> None:
    taken = learn(tmp_path)
    prepare(corpus_of(PARTS[1]), tmp_path / "two", options=taken, workers=1)
    for options in (PrepareOptions(bpe_merges=40), PrepareOptions(bpe_merges=20)):
        with pytest.raises(CorpusError, match=r"(?m)different text pipeline$"):
            prepare(corpus_of(PARTS[1]), tmp_path / "two", options=options, workers=1)


def test_a_folder_without_a_pipeline_or_with_one_of_other_languages_is_refused(
    tmp_path: Path,
) -> None:
    taken = learn(tmp_path)
    with pytest.raises(ConfigError, match="no text pipeline in nowhere"):
        prepare(corpus_of(PARTS[1]), tmp_path / "x", options=PrepareOptions(pipeline="nowhere"))
    turned = Corpus("mine", ("en", "de"), corpus_of(PARTS[1]).splits)
    with pytest.raises(ConfigError, match="is for de-en, this text is en-de"):
        prepare(turned, tmp_path / "x", options=taken)


def test_the_same_parts_again_are_no_work_and_other_parts_need_force(tmp_path: Path) -> None:
    taken = learn(tmp_path)
    folders = [tmp_path / "one", tmp_path / "two"]
    prepare(corpus_of(PARTS[1]), folders[1], options=taken, workers=1)
    merge_prepared(folders, tmp_path / "all")
    before = (tmp_path / "all").stat().st_ino
    listener = Listener()
    merge_prepared(folders, tmp_path / "all", progress=listener)
    assert "Unchanged" in listener.lines
    assert (tmp_path / "all").stat().st_ino == before
    with pytest.raises(CorpusError, match="another prepared corpus: different text"):
        merge_prepared(folders[::-1], tmp_path / "all")
    merge_prepared(folders[::-1], tmp_path / "all", force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "all"}


def test_a_split_may_have_the_name_of_a_file_of_the_corpus(tmp_path: Path) -> None:
    for number, part in enumerate(PARTS):
        splits = {"corpus": parallel_text(PAIRS[115:], "corpus"), **corpus_of(part).splits}
        options = PrepareOptions(pipeline=str(tmp_path / "0") if number else "", bpe_merges=40)
        prepare(Corpus("mine", ("de", "en"), splits), tmp_path / str(number), options=options)
    merged = merge_prepared([tmp_path / "0", tmp_path / "1"], tmp_path / "all")
    merged.check_files()
    assert merged.raw_lines("corpus", "source") == [source for source, _ in PAIRS[115:]]


@pytest.mark.parametrize(
    ("options", "valid", "problem"),
    [
        ({"bpe_merges": 41}, PAIRS[100:110], "differ in their text pipeline"),
        (None, PAIRS[100:109], "differ in their valid or test text"),
        ({"max_length": 9}, PAIRS[100:110], "differ in their cleaning rules"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    tmp_path: Path, options: Any, valid: Any, problem: Any
) -> None:
    taken = learn(tmp_path)
    if options and "max_length" in options:
        options["pipeline"] = taken.pipeline
    chosen = PrepareOptions(**options) if options else taken
    prepare(corpus_of(PARTS[1], valid=valid), tmp_path / "two", options=chosen, workers=1)
    with pytest.raises(CorpusError, match=problem) as caught:
        merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    assert "prepare" in str(caught.value.hint)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


def test_a_part_given_twice_is_refused(tmp_path: Path) -> None:
    learn(tmp_path)
    with pytest.raises(CorpusError, match="is given twice"):
        merge_prepared([tmp_path / "one", tmp_path / "one" / "text" / ".."], tmp_path / "all")


def test_a_part_in_the_place_of_the_merge_is_refused(tmp_path: Path) -> None:
    taken = learn(tmp_path)
    parts = [tmp_path / "one", tmp_path / "two"]
    prepare(corpus_of(PARTS[1]), parts[1], options=taken, workers=1)
    before = (parts[1] / "corpus.json").read_bytes()
    with pytest.raises(CorpusError, match="two is one of the parts"):
        merge_prepared(parts, tmp_path / "one" / ".." / "two", force=True)
    assert (parts[1] / "corpus.json").read_bytes() == before
    with pytest.raises(CorpusError, match=r"(?m)another prepared corpus: different text$"):
        prepare(corpus_of(PARTS[0]), merge_prepared(parts, tmp_path / "all").folder, options=taken)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = learn(tmp_path)
    prepare(corpus_of(PARTS[1]), tmp_path / "two", options=taken, workers=1)
    open_path = Path.open

    def full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.name == "train.target.npy" and "w" in mode:
            raise OSError(errno.ENOSPC, "No space left")
        return open_path(path, mode, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(WorkError, match="the disk is full"):
        patch.setattr(Path, "open", full)
        merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    assert len(merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all").splits) == 3


def test_labels_and_gold_alignments_follow_their_pairs(tmp_path: Path) -> None:
    text = load_built_in("grammar-de-en").splits["train"]
    assert text.gold is not None
    tags = [*text.gold.source_tags]
    tags[145] = " ".join("_" for _ in tags[145].split())  # of a pair in both parts
    all_gold = replace(text.gold, source_tags=tags)

    def lines(start: int, stop: int) -> ParallelText:
        gold = {name: values[start:stop] for name, values in vars(all_gold).items()}
        sides = text.source[start:stop], text.target[start:stop]
        return ParallelText(*sides, gold=Gold(**gold))

    def cut(start: int, stop: int) -> Corpus:
        splits = {"train": lines(start, stop), "valid": lines(300, 320), "test": lines(320, 340)}
        return Corpus("mine", ("de", "en"), splits)

    options = PrepareOptions(bpe_merges=200)
    prepare(cut(0, 150), tmp_path / "one", options=options, workers=1)
    taken = PrepareOptions(pipeline=str(tmp_path / "one"))
    prepare(cut(140, 300), tmp_path / "two", options=taken, workers=1)
    prepare(cut(0, 300), tmp_path / "once", options=taken, workers=1)
    merge_prepared([tmp_path / "one", tmp_path / "two"], tmp_path / "all")
    joined, once = contents(tmp_path / "all"), contents(tmp_path / "once")
    infos = [json.loads(files.pop("corpus.json")) for files in (joined, once)]
    assert joined == once and "train.source.pos.npy" in once
    assert "text/train.alignments.txt" in once
    assert infos[0]["unlabelled"] == infos[1]["unlabelled"]
    assert infos[0]["unlabelled"]["train"] == 1
