"""Preparing a corpus: what lands in the folder, what stays the same, what is refused."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from plugins.folders import contents
from plugins.listener import Listener

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError, JtransError
from jtrans.preparation import learn as learning
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.preparation.request import make_request
from jtrans.preparation.statistics import Statistics
from jtrans.text.bpe import count_words, learn
from jtrans.text.vocabulary import SPECIALS, UNK

SMALL = PrepareOptions(bpe_merges=30)
NOUNS = [("Hund", "dog"), ("Mann", "man"), ("Tisch", "table"), ("Ball", "ball"), ("Zug", "train")]
ADJECTIVES = [("alte", "old"), ("kleine", "small"), ("rote", "red"), ("neue", "new")]


def sentences(start: int, stop: int) -> tuple[list[str], list[str]]:
    """Distinct pairs, as natural text with punctuation."""
    source, target = [], []
    for i in range(start, stop):
        noun, other = NOUNS[i % 5], NOUNS[i // 5 % 5]
        adjective = ADJECTIVES[i // 25 % 4]
        source.append(f"Der {adjective[0]} {noun[0]} sieht den {other[0]}.")
        target.append(f"The {adjective[1]} {noun[1]} sees the {other[1]}.")
    return source, target


def make_corpus(
    train: tuple[Sequence[str], Sequence[str]] | None = None,
    valid: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Corpus:
    splits = {
        "train": ParallelText(*(train or sentences(0, 80)), ("corpus/train",)),
        "valid": ParallelText(*(valid or sentences(80, 90)), ("corpus/valid",)),
        "test": ParallelText(*sentences(90, 100), ("corpus/test",)),
    }
    return Corpus("mine", ("de", "en"), splits)


@pytest.mark.parametrize(
    "options",
    [
        SMALL,
        PrepareOptions(bpe="separate", bpe_merges=20, lowercase=True),
        PrepareOptions(bpe="none", min_count=2),
        PrepareOptions(bpe_merges=30, vocabulary="joint", source_segment="whitespace"),
        PrepareOptions(bpe="none", source_segment="character", target_segment="character"),
    ],
)
def test_stored_ids_are_what_the_pipeline_makes_of_the_raw_lines(
    tmp_path: Path, options: Any
) -> None:
    corpus = make_corpus()
    prepared = prepare(corpus, tmp_path / "out", options=options, workers=1)
    for split in prepared.splits:
        pairs = prepared.pairs(split)
        assert len(pairs) == len(corpus.splits[split])
        for i, line in enumerate(corpus.splits[split].source):
            assert pairs.source[i].tolist() == prepared.pipeline.source.encode(line)
        for i, line in enumerate(corpus.splits[split].target):
            assert pairs.target[i].tolist() == prepared.pipeline.target.encode(line)
            assert pairs.target.lengths[i] == len(pairs.target[i])


@pytest.mark.parametrize("is_joint", [True, False])
def test_merges_are_learned_from_both_sides_together_or_from_each(
    tmp_path: Path, is_joint: bool
) -> None:
    options = PrepareOptions(bpe="joint" if is_joint else "separate", bpe_merges=30)
    corpus = make_corpus()
    pipeline = prepare(corpus, tmp_path / "out", options=options, workers=1).pipeline
    train = corpus.splits["train"]
    source = count_words(map(pipeline.source.segment, train.source))
    target = count_words(map(pipeline.target.segment, train.target))
    texts = [[source, target]] * 2 if is_joint else [[source], [target]]
    assert [pipeline.source.codes, pipeline.target.codes] == [learn(text, 30) for text in texts]


def test_pairs_of_letters_that_are_rarer_than_asked_for_are_not_merged(tmp_path: Path) -> None:
    options = PrepareOptions(bpe_merges=30, bpe_min_frequency=1000)
    with pytest.raises(CorpusError, match=r"no pair of characters occurs 1,000 times"):
        prepare(make_corpus(), tmp_path / "out", options=options, workers=1)


def test_raw_and_segmented_lines_of_valid_and_test_are_kept(tmp_path: Path) -> None:
    valid = (["Ein\u2028Hund.", "", "Ja."], ["A dog.", "Nothing.", ""])
    prepared = prepare(make_corpus(valid=valid), tmp_path / "out", options=SMALL, workers=1)
    assert prepared.raw_lines("valid", "source") == valid[0]
    assert prepared.raw_lines("valid", "target") == valid[1]
    assert prepared.words_lines("valid", "source") == [["Ein", "Hund", "."], [], ["Ja", "."]]
    assert (tmp_path / "out/text/test.de").is_file()
    assert not list((tmp_path / "out/text").glob("train*"))
    with pytest.raises(CorpusError, match="no text of train"):
        prepared.raw_lines("train", "source")


def test_empty_lines_of_valid_stay_and_are_warned_of(tmp_path: Path) -> None:
    listener = Listener()
    valid = (["Ja.", "", "Nein."], ["Yes.", "", "No."])
    prepared = prepare(
        make_corpus(valid=valid), tmp_path / "out", options=SMALL, workers=1, progress=listener
    )
    assert prepared.pairs("valid").source.lengths.tolist()[1] == 1
    assert listener.warnings[0] == "valid has 1 pair with an empty side (kept)"


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("lines", [(["", " "], ["", ""]), (["a", ""], ["\t", "b"]), ([], [])])
def test_a_valid_or_test_set_without_a_pair_of_text_is_refused(
    tmp_path: Path, split: str, lines: Any
) -> None:
    corpus = make_corpus()
    empty = ParallelText(lines[0], lines[1], ("corpus/empty",))
    corpus = Corpus("mine", ("de", "en"), {**corpus.splits, split: empty})
    with pytest.raises(CorpusError, match=rf"{split} has only empty lines|has no valid text"):
        prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    assert not list(tmp_path.iterdir())


def test_lines_that_segmentation_leaves_empty_are_no_text_either(tmp_path: Path) -> None:
    corpus = make_corpus(valid=(["\x01", "\x7f"], ["Yes.", "No."]))
    with pytest.raises(CorpusError, match="valid has only empty lines"):
        prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    assert not list(tmp_path.iterdir())


def test_train_is_cleaned_and_counted(tmp_path: Path) -> None:
    source, target = sentences(0, 60)
    source += [
        "",
        source[0],
        sentences(80, 81)[0][0].upper(),
        "Ein sehr langer Satz ohne Gegenstück.",
    ]
    target += ["x", target[0], sentences(80, 81)[1][0], "What?"]
    source += ["Copied text.", "Ein Haus am Meer."]
    target += ["Copied text.", "海边 的 一座 房子"]
    listener = Listener()
    prepared = prepare(
        make_corpus((source, target)), tmp_path / "out", options=SMALL, workers=1, progress=listener
    )
    assert prepared.info["cleaning"] == {
        "kept": 60,
        "dropped": {
            "empty": 1, "too long": 0, "ratio": 1, "identical": 1, "wrong script": 1,
            "duplicate": 1, "in valid/test": 1,
        },
        "strict_ratio": 1,
    }  # fmt: skip
    assert len(prepared.pairs("train")) == 60
    assert listener.lines["Cleaning"] == (
        "kept 60 · empty 1 · too long 0 · ratio 1 (1.5 would drop 1) · identical 1 · "
        "wrong script 1 · duplicate 1 · in valid/test 1"
    )


def test_the_usual_ratio_keeps_what_a_strict_one_drops_and_says_how_much(tmp_path: Path) -> None:
    source, target = sentences(0, 60)
    source += [f"Eins zwei drei vier {i}." for i in range(8)]
    target += [f"Some {i}." for i in range(8)]
    listener = Listener()
    corpus = make_corpus((source, target))
    prepared = prepare(corpus, tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert prepared.info["cleaning"]["kept"] == 68
    assert prepared.info["cleaning"]["strict_ratio"] == 8
    assert "ratio 0 (1.5 would drop 8)" in listener.lines["Cleaning"]
    strict = SMALL.model_copy(update={"max_ratio": 1.5})
    prepared = prepare(corpus, tmp_path / "strict", options=strict, workers=1, progress=listener)
    assert prepared.info["cleaning"]["kept"] == 60
    assert "would drop" not in listener.lines["Cleaning"]


def changed(lines: Sequence[str]) -> list[str]:
    """Change case, spaces and punctuation, and write some letters at full width."""
    wide = str.maketrans({"e": "ｅ"})
    return [f"« {line.upper().translate(wide).removesuffix('.')} » !" for line in lines]


def leaky_corpus() -> Corpus:
    """Return a corpus with pairs and sides of test in train, none of them literally.

    Train ends with five pairs of test, four with its second reference, three of its sources and
    two of its targets.
    """
    source, target = sentences(0, 50)
    test_source, test_target = sentences(66, 80)
    other = [f"Look: {line}" for line in test_target]
    source += changed([*test_source[:9], *test_source[9:12]])
    target += changed([*test_target[:5], *other[5:9], *sentences(60, 63)[1]])
    source += changed(sentences(63, 65)[0])
    target += changed(test_target[12:14])
    test = ParallelText(test_source, test_target, references=(test_target, other))
    corpus = make_corpus((source, target))
    return Corpus(corpus.name, corpus.languages, {**corpus.splits, "test": test})


@pytest.mark.parametrize(
    ("unit", "dropped"), [("pair", 9), ("source", 12), ("target", 11), (False, 0)]
)
def test_pairs_of_test_are_dropped_whatever_their_case_and_punctuation(
    tmp_path: Path, unit: Any, dropped: int
) -> None:
    options = SMALL.model_copy(update={"drop_leaked": unit})
    listener = Listener()
    prepared = prepare(
        leaky_corpus(), tmp_path / "out", options=options, workers=1, progress=listener
    )
    assert prepared.info["cleaning"]["dropped"]["in valid/test"] == dropped
    assert prepared.info["overlap"]["test"] == {"source": 12, "target": 11, "pair": 9}
    assert prepared.info["overlap"]["valid"] == {"source": 0, "target": 0, "pair": 0}
    assert "test 12 sources, 11 targets, 9 pairs" in listener.lines["Overlap"]


def test_overlap_is_the_same_for_any_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prepare(leaky_corpus(), tmp_path / "whole", options=SMALL, workers=1)
    monkeypatch.setattr("jtrans.preparation.shards.SMALLEST_SHARD", 7)
    prepare(leaky_corpus(), tmp_path / "out", options=SMALL, workers=2)
    assert contents(tmp_path / "out") == contents(whole.folder)


def test_sizes_in_corpus_json_are_those_of_the_arrays(tmp_path: Path) -> None:
    prepared = prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    train = prepared.pairs("train")
    info = json.loads((tmp_path / "out/corpus.json").read_text(encoding="utf-8"))
    assert info["joint_size"]["sum"] == (train.source.lengths * train.target.lengths).sum()
    assert info["splits"]["train"]["tokens"]["source"] == train.source.lengths.sum()
    assert info["vocabulary"]["target"] == len(prepared.pipeline.target.vocabulary)
    assert list(info["splits"]) == ["train", "valid", "test"]


def test_every_step_is_told(tmp_path: Path) -> None:
    listener = Listener()
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    labels = "Reading Cleaning Segmenting BPE Vocabulary Encoding Written"
    assert set(labels.split()) <= set(listener.lines)
    assert listener.lines["Reading"] == "train 80 · valid 10 · test 10"
    assert listener.lines["BPE"].startswith("30 joint merges learned")
    assert "per target token" in listener.lines["Joint size"]


def test_preparing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        prepare(make_corpus(), tmp_path / name, options=SMALL, workers=1)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.sample(1)
@pytest.mark.parametrize("shard", [7, 1000])
def test_neither_workers_nor_shards_change_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: Any
) -> None:
    prepare(make_corpus(), tmp_path / "one", options=SMALL, workers=1)
    monkeypatch.setattr("jtrans.preparation.shards.SMALLEST_SHARD", shard)
    monkeypatch.setattr(learning, "TYPES_AT_ONCE", 5)
    prepare(make_corpus(), tmp_path / "three", options=SMALL, workers=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


def test_the_number_of_shards_is_not_limited_by_that_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.preparation.shards.SMALLEST_SHARD", 1)
    monkeypatch.setattr("jtrans.preparation.shards.LARGEST_SHARD", 1)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 40, hard))
    try:
        prepared = prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(prepared.pairs("train")) > 50


def test_the_same_request_again_leaves_the_folder_alone(tmp_path: Path) -> None:
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    before = (tmp_path / "out").stat().st_ino
    listener = Listener()
    again = prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert isinstance(again, PreparedCorpus)
    assert "Unchanged" in listener.lines and "Written" not in listener.lines
    assert (tmp_path / "out").stat().st_ino == before


@pytest.mark.parametrize("name", ["runs/model", "thesis.tex", "text.de", "text/x/y"])
def test_not_even_force_deletes_files_of_a_user(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("precious", encoding="utf-8")
    prepare(make_corpus(), folder, options=SMALL, workers=1)  # nothing to do, nothing to lose
    for damage in (False, True):
        if damage:
            (folder / "corpus.json").write_text("{", encoding="utf-8")
        with pytest.raises(CorpusError, match=f"holds {name}, which is not part of the prepared"):
            prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    assert (folder / name).read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("force", [False, True])
def test_a_corpus_json_of_something_else_is_not_replaced(force: bool, tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text('{"my": "notes"}', encoding="utf-8")
    with pytest.raises(CorpusError, match="is not a prepared corpus") as error:
        prepare(make_corpus(), tmp_path, options=SMALL, workers=1, force=force)
    assert "--force" not in str(error.value.hint)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.json"]


@pytest.mark.parametrize(
    ("corpus", "options", "difference"),
    [
        (make_corpus(), PrepareOptions(bpe_merges=31), r"--bpe-merges \(30, now 31\)"),
        (make_corpus(sentences(0, 79)), SMALL, "different text"),
    ],
)
def test_another_corpus_in_the_folder_is_replaced_only_by_force(
    tmp_path: Path, corpus: Any, options: Any, difference: Any
) -> None:
    folder = tmp_path / "out"
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    before = contents(folder)
    with pytest.raises(CorpusError, match=difference) as caught:
        prepare(corpus, folder, options=options, workers=1)
    assert "--force" in str(caught.value.hint)
    assert contents(folder) == before
    prepare(corpus, folder, options=options, workers=1, force=True)
    assert contents(folder) != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_other_things_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious", encoding="utf-8")
    with pytest.raises(CorpusError, match="is not a prepared corpus"):
        prepare(make_corpus(), tmp_path, options=SMALL, workers=1, force=True)
    assert contents(tmp_path) == {"thesis.tex": b"precious"}


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(CorpusError, match="not a folder"):
        prepare(make_corpus(), tmp_path / "file" / "out", options=SMALL, workers=1)
    with pytest.raises(CorpusError, match="is not a prepared corpus"):
        prepare(make_corpus(), tmp_path / "file", options=SMALL, workers=1)


def test_a_link_stays_and_what_it_leads_to_is_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/corpus", target_is_directory=True)
    for merges in (30, 20):
        options = PrepareOptions(bpe_merges=merges)
        prepare(make_corpus(), tmp_path / "link", options=options, workers=1, force=True)
        assert (tmp_path / "link").is_symlink()
        assert {path.name for path in (tmp_path / "disk").iterdir()} == {"corpus"}
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link"}


def test_a_link_to_a_folder_that_is_not_mounted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("disk/corpus", target_is_directory=True)
    with pytest.raises(JtransError, match="there is no folder"):
        prepare(make_corpus(), tmp_path / "link", options=SMALL, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_the_working_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(CorpusError, match="this is the working directory") as caught:
        prepare(make_corpus(), Path(), options=SMALL, workers=1)
    assert "--out corpus" in str(caught.value.hint)


def test_nothing_left_after_cleaning_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    corpus = make_corpus((["", "a b c d"], ["x", "y"]))
    with pytest.raises(CorpusError, match=r"no training pair is left.*empty 1.*ratio 1"):
        prepare(corpus, tmp_path / "deep" / "out", options=SMALL, workers=1)
    assert not list(tmp_path.iterdir())


def test_nothing_left_after_cleaning_comes_with_a_way_to_keep_pairs(tmp_path: Path) -> None:
    corpus = make_corpus((["a b c d", "a b c"], ["x", "y z"]))
    options = PrepareOptions(max_length=2)
    with pytest.raises(CorpusError, match="no training pair is left") as caught:
        prepare(corpus, tmp_path / "out", options=options, workers=1)
    assert "too long (--max-length is 2)" in str(caught.value.hint)


def test_many_dropped_pairs_are_warned_of(tmp_path: Path) -> None:
    source, target = sentences(0, 60)
    listener = Listener()
    corpus = make_corpus((source, ["Short." if i < 30 else t for i, t in enumerate(target)]))
    prepare(corpus, tmp_path / "out", options=SMALL, workers=1, progress=listener)
    expected = "50 % of the training pairs were dropped, most for: ratio (--max-ratio is 3)"
    assert listener.warnings[0] == expected


def test_a_line_of_ten_megabytes_is_dropped_from_train_and_refused_in_valid(tmp_path: Path) -> None:
    long = ["x" * 10_000_000], ["y"]
    source, target = sentences(0, 60)
    prepared = prepare(
        make_corpus((source + long[0], target + long[1])),
        tmp_path / "out",
        options=SMALL,
        workers=1,
    )
    assert prepared.info["cleaning"]["dropped"]["too long"] == 1
    with pytest.raises(
        CorpusError, match=r"line 2 of the source of valid has 10,000,000"
    ) as caught:
        valid = (["Ja.", *long[0]], ["Yes.", *long[1]])
        prepare(make_corpus(valid=valid), tmp_path / "other", options=SMALL, workers=1)
    assert caught.value.where == "corpus/valid, line 2"
    assert not (tmp_path / "other").exists()


def test_a_single_training_pair_is_enough_to_be_prepared(tmp_path: Path) -> None:
    corpus = make_corpus((["Das Haus, das Haus."], ["The house, the house."]))
    assert len(prepare(corpus, tmp_path / "out", options=SMALL, workers=1).pairs("train")) == 1


def test_sides_that_look_swapped_are_warned_of(tmp_path: Path) -> None:
    listener = Listener()
    source, target = sentences(0, 60)
    corpus = make_corpus((target, source))
    prepare(corpus, tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert "the sides of train look swapped" in listener.warnings[0]
    assert not [text for text in listener.warnings[1:] if "swapped" in text]


@pytest.mark.parametrize(
    ("language", "lowercase", "number"), [("tr", True, 1), ("tr", False, 0), ("de", True, 0)]
)
def test_lower_case_is_warned_of_where_there_are_two_kinds_of_i(
    language: str, lowercase: bool, number: int, tmp_path: Path
) -> None:
    listener = Listener()
    corpus = Corpus("mine", (language, "en"), make_corpus().splits)
    options = PrepareOptions(bpe_merges=30, lowercase=lowercase)
    prepare(corpus, tmp_path / "out", options=options, workers=1, progress=listener)
    found = [
        text for text in listener.warnings if text.startswith("lower-casing tr turns I into i")
    ]
    assert len(found) == number


def test_a_swapped_test_set_is_warned_of_in_any_language(tmp_path: Path) -> None:
    listener = Listener()
    corpus = make_corpus()
    test = ParallelText(corpus.splits["test"].target, corpus.splits["test"].source)
    # no common words are known of Swedish and Danish, and their script is the same
    corpus = Corpus("mine", ("sv", "da"), {**corpus.splits, "test": test})
    options = PrepareOptions(bpe_merges=30)
    prepare(corpus, tmp_path / "out", options=options, workers=1, progress=listener)
    swapped = [text for text in listener.warnings if "look swapped" in text]
    assert len(swapped) == 1
    assert swapped[0].startswith(
        "the sides of test look swapped: its source has the words of train's target"
    )


def test_text_unlike_train_is_warned_of(tmp_path: Path) -> None:
    listener = Listener()
    valid = (["ЩЖ ЮЯ ЭЮ"], ["ŵŷ ẁỳ ǎǒ"])
    prepare(make_corpus(valid=valid), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert "% of the tokens of valid are unknown: is it like" in listener.warnings[-1]


def test_training_text_with_many_unknown_tokens_comes_with_what_may_be_the_cause(
    tmp_path: Path,
) -> None:
    listener, options = Listener(), PrepareOptions(bpe="none", min_count=50)
    prepare(make_corpus(), tmp_path / "one", options=options, workers=1, progress=listener)
    [warning] = [text for text in listener.warnings if "tokens of train are unknown" in text]
    assert warning.endswith(": is --min-count 50 too many for so little text?")
    lines = [f"<unk> a{number} </s>" for number in range(20)]
    listener, options = (
        Listener(),
        PrepareOptions(
            bpe="none", source_segment="whitespace", target_segment="whitespace", min_count=1
        ),
    )
    special = make_corpus(train=(lines, [f"{line} c" for line in lines]))
    prepare(special, tmp_path / "special", options=options, workers=1, progress=listener)
    [warning] = [text for text in listener.warnings if "tokens of train are unknown" in text]
    assert warning.endswith("does the text contain <unk>, <s>, </s> or <pad> as words?")
    listener, options = Listener(), PrepareOptions(pipeline=str(tmp_path / "one"))
    prepare(make_corpus(), tmp_path / "two", options=options, workers=1, progress=listener)
    [warning] = [text for text in listener.warnings if "tokens of train are unknown" in text]
    assert warning.endswith(f": was the pipeline of {tmp_path / 'one'} learned from text like it?")


def test_a_side_in_another_script_is_warned_of(tmp_path: Path) -> None:
    listener = Listener()
    corpus = Corpus("mine", ("zh", "en"), make_corpus().splits)
    options = PrepareOptions(bpe_merges=30, source_segment="moses", drop_wrong_script=False)
    prepare(corpus, tmp_path / "out", options=options, workers=1, progress=listener)
    assert "100 % of the zh lines of train have no letter" in listener.warnings[0]


def test_translations_into_chinese_have_the_spaces_of_the_training_text(tmp_path: Path) -> None:
    lines = [f"我用 Python {number} 写{mark}" for number in range(9) for mark in ("。", "吗？")]
    english = [f"I write Python {number} ." for number in range(18)]
    options = PrepareOptions(bpe="none", drop_leaked=False)
    pipelines = []
    for languages, sides in ((("en", "zh"), (english, lines)), (("zh", "en"), (lines, english))):
        text = ParallelText(*sides)
        corpus = Corpus("mine", languages, {"train": text, "valid": text})
        prepared = prepare(corpus, tmp_path / languages[0], options=options, workers=1)
        pipelines.append(prepared.pipeline)
    target = pipelines[0].target
    assert target.spaces == ("a字", "字a")
    assert target.decode(target.encode(lines[0])) == lines[0]
    others = [pipelines[0].source, pipelines[1].source, pipelines[1].target]
    assert not any(side.spaces for side in others)  # these are never joined


@pytest.mark.parametrize(
    ("languages", "wide", "given", "is_narrow"),
    [
        (("zh", "en"), "１", None, True),
        (("en", "yue"), "１", None, True),
        (("zh", "en"), "１２３４", None, False),  # most are wide
        (("zh", "en"), "１", False, False),
        (("zh", "en"), "１２３４", True, True),
        (("ja", "en"), "１", None, False),
        (("de", "en"), "１", None, False),
    ],
)
def test_full_width_letters_become_narrow_where_chinese_has_few_of_them(
    languages: tuple[str, str], wide: str, given: bool | None, is_narrow: bool
) -> None:
    text = ParallelText([f"有ab{wide}个"], [f"有ab{wide}个"])
    corpus = Corpus("mine", languages, {"train": text, "valid": text})
    request = make_request(corpus, PrepareOptions(narrow=given), Listener())
    assert request.options.narrow is is_narrow
    assert [side.narrow for side in request.sides] == [is_narrow] * 2


def test_chinese_prepared_before_letters_became_narrow_stays_as_it_is(tmp_path: Path) -> None:
    text = ParallelText(["有ab１个"], ["has ab１"])
    corpus = Corpus("mine", ("zh", "en"), {"train": text, "valid": text})
    options = PrepareOptions(bpe="none", source_segment="character", drop_leaked=False)
    keep_wide = options.model_copy(update={"narrow": False})
    folder = prepare(corpus, tmp_path / "out", options=keep_wide, workers=1).folder
    info = json.loads((folder / "corpus.json").read_bytes())
    del info["options"]["narrow"]
    (folder / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    before, listener = contents(folder), Listener()
    prepare(corpus, folder, options=options, progress=listener)
    assert contents(folder) == before
    assert "--force prepares the corpus by today's rules" in listener.lines["Note"]
    with pytest.raises(CorpusError, match=r"different --narrow \(off, now on\)"):
        prepare(corpus, folder, options=options.model_copy(update={"narrow": True}))


def test_truecased_words_begin_small_and_come_back_with_a_capital(tmp_path: Path) -> None:
    source, target = sentences(0, 60)
    for number in range(0, 60, 4):  # more sentences begin with Der than have der within
        source[number] = f"Heute sieht der Mann d{source[number][1:]}"
    options = PrepareOptions(bpe="none", truecase=True, max_ratio=9)
    prepared = prepare(make_corpus((source, target)), tmp_path / "out", options=options, workers=1)
    side = prepared.pipeline.source
    line = "Der alte Hund sieht den Ball."
    assert side.segment(line)[:3] == ["der", "alte", "Hund"]
    assert side.decode(side.encode(line)) == line
    assert prepared.words_lines("valid", "source")[0][0] == "der"
    assert prepared.word_counts("source") == Counter(
        word for line in source for word in side.segment(line)
    )
    again = PreparedCorpus.open(tmp_path / "out").pipeline.source
    assert again.encode(line) == side.encode(line)


def test_single_characters_keep_their_case_beside_truecased_words(tmp_path: Path) -> None:
    options = PrepareOptions(bpe="separate", bpe_merges=30, truecase=True, max_ratio=9,
                             target_segment="character")  # fmt: skip
    source, target = sentences(0, 80)
    corpus = make_corpus(([f"Ob {line[0].lower()}{line[1:]}" for line in source], target))
    pipeline = prepare(corpus, tmp_path / "out", options=options, workers=1).pipeline
    assert pipeline.source.segment("Der Hund")[0] == "der"
    line = "see www.dog.com"
    assert pipeline.target.join(pipeline.target.segment(line)) == line
    taken = PrepareOptions(pipeline=str(tmp_path / "out"), max_ratio=9)
    again = prepare(corpus, tmp_path / "again", options=taken, workers=1)
    assert again.pipeline.fingerprint() == pipeline.fingerprint()


def test_statistics_are_those_of_the_text(tmp_path: Path) -> None:
    prepared = prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    train, pairs = prepared.info["splits"]["train"], prepared.pairs("train")
    words = [
        prepared.pipeline.source.segment(line) for line in make_corpus().splits["train"].source
    ]
    assert train["words"]["source"] == sum(map(len, words))
    assert prepared.info["types"]["source"] == len({word for line in words for word in line})
    assert sum(train["lengths"]["source"].values()) == len(pairs)
    short = int((pairs.source.lengths - 1 <= 10).sum())
    assert train["lengths"]["source"]["1-10"] == short
    assert train["joint"] == int((pairs.source.lengths * pairs.target.lengths).sum())


def test_the_share_of_unknown_tokens_is_that_of_both_sides() -> None:
    tokens, unknown = {"source": 10, "target": 30}, {"source": 1, "target": 5}
    assert Statistics(tokens=tokens, unknown=unknown).unknown_share == 0.15
    assert Statistics().unknown_share == 0.0


def test_several_references_are_kept(tmp_path: Path) -> None:
    source, target = sentences(90, 100)
    other = [line.upper() for line in target]
    test = ParallelText(source, target, references=(target, other))
    corpus = make_corpus()
    splits = {**corpus.splits, "test": test}
    corpus = Corpus(corpus.name, corpus.languages, splits)
    prepared = prepare(corpus, tmp_path / "out", options=SMALL, workers=1)
    assert prepared.references("test") == [target, other]
    assert prepared.references("valid") == [prepared.raw_lines("valid", "target")]


def test_joint_vocabulary_is_one_for_both_sides(tmp_path: Path) -> None:
    options = PrepareOptions(bpe_merges=30, vocabulary="joint")
    prepared = prepare(make_corpus(), tmp_path / "out", options=options, workers=1)
    source, target = prepared.pipeline.source, prepared.pipeline.target
    assert source.vocabulary.tokens == target.vocabulary.tokens
    assert prepared.info["splits"]["train"]["unknown"] == {"source": 0, "target": 0}


def test_rare_tokens_are_unknown(tmp_path: Path) -> None:
    source, target = sentences(0, 60)
    options = PrepareOptions(bpe="none", min_count=2)
    corpus = make_corpus((["Selten " + source[0], *source[1:]], ["Rare " + target[0], *target[1:]]))
    prepared = prepare(corpus, tmp_path / "out", options=options, workers=1)
    assert "Selten" not in prepared.pipeline.source.vocabulary.tokens
    assert prepared.info["splits"]["train"]["unknown"] == {"source": 1, "target": 1}


@pytest.mark.parametrize(
    ("options", "kind", "hint"),
    [
        ({"bpe": "joined"}, "config.choice", "did you mean joint?"),
        ({"vocabulary": "xyz"}, "config.choice", "jtrans prepare --help"),
        ({"drop_leaked": "False"}, "config.choice", "--keep-leaked keeps such pairs"),
        ({"drop_leaked": "pairs"}, "config.choice", "did you mean pair?"),
        ({"max_ratio": 0.5}, "config.range", "jtrans prepare --help"),
        ({"max_ratio": float("nan")}, "config.range", "jtrans prepare --help"),
        ({"bpe_merges": 0}, "config.range", "jtrans prepare --help"),
        ({"lowercase": True, "truecase": True}, "config.choice", "jtrans prepare --help"),
        ({"bpe_merge": 10}, "config.unknown-key", "did you mean bpe_merges?"),
    ],
)
def test_impossible_options_are_refused(options: Any, kind: Any, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PrepareOptions(**options)
    assert (caught.value.kind, caught.value.exit_code) == (kind, 2)
    assert str(caught.value.hint).startswith(hint)


def test_a_corpus_without_valid_is_refused(tmp_path: Path) -> None:
    corpus = Corpus("half", ("de", "en"), {"train": ParallelText(["a"], ["b"])})
    with pytest.raises(CorpusError, match="has no valid text"):
        prepare(corpus, tmp_path / "out")


def unknown(corpus: PreparedCorpus, split: str) -> int:
    return int((corpus.pairs(split).source.flat[0] == UNK).sum())


def test_a_new_word_is_spelled_with_pieces_known_on_its_side(tmp_path: Path) -> None:
    # joint merges make one piece of "hausboot", a word of the target alone
    source = ["haus und boot", "hausen und booten", "das haus und das boot"] * 4
    source.append("hausx hausy hausz")
    target = [*["hausboot", "hausboot hausboots", "the hausboot"] * 4, "x y z"]
    valid = (["das hausboot"], ["the hausboot"])
    corpora = [
        prepare(
            make_corpus((source, target), valid),
            tmp_path / str(spell),
            options=PrepareOptions(bpe_merges=40, spell=spell, deduplicate=False),
            workers=1,
        )
        for spell in (False, True)
    ]
    assert [unknown(corpus, "valid") for corpus in corpora] == [1, 0]
    assert [unknown(corpus, "train") for corpus in corpora] == [0, 0]
    assert corpora[0].pipeline.source.vocabulary == corpora[1].pipeline.source.vocabulary
    assert UNK not in corpora[1].pipeline.source.encode("das hausboot")
    assert "spell" not in corpora[0].pipeline.to_json()["source"]


def test_rare_pieces_count_as_the_smaller_ones_they_are_split_into(tmp_path: Path) -> None:
    draw = Random(1)
    words = ["".join(draw.choices("abcd", k=draw.randint(1, 6))) for _ in range(400)]
    lines = [" ".join(words[i : i + 4]) for i in range(0, 400, 4)]
    corpora = [
        prepare(
            make_corpus((lines, [line[::-1] for line in lines])),
            tmp_path / str(spell),
            options=PrepareOptions(bpe_merges=150, min_count=5, spell=spell),
            workers=1,
        )
        for spell in (False, True)
    ]
    other, corpus = corpora
    assert unknown(corpus, "train") < unknown(other, "train") / 2
    pipeline, pairs = corpus.pipeline, corpus.pairs("train")
    for side, ids in ((pipeline.source, pairs.source), (pipeline.target, pairs.target)):
        counts = Counter(ids.flat[0].tolist())
        for number in range(len(SPECIALS), len(side.vocabulary)):
            assert counts[number] == side.vocabulary.counts[number]


def test_a_corpus_prepared_before_an_option_existed_had_it_off(tmp_path: Path) -> None:
    options = PrepareOptions(bpe_merges=30, spell=False)
    folder = tmp_path / "corpus"
    prepare(make_corpus(), folder, options=options, workers=1)
    info = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    del info["options"]["spell"]
    (folder / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    listener = Listener()
    prepare(make_corpus(), folder, options=options, workers=1, progress=listener)
    assert "Unchanged" in listener.lines
