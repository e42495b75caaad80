"""`jtrans prepare` and `jtrans corpora` as a user meets them: output, exit codes, leftovers."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn

from jtrans.corpora.catalogue import load as catalogue
from jtrans.corpora.entry import Entry
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus

SOURCE = [f"Der Hund Nummer {i} sieht den Ball." for i in range(30)]
TARGET = [f"The dog number {i} sees the ball." for i in range(30)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Make corpus/{train,valid,test}.{de,en}."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, part in {
        "train": slice(0, 20),
        "valid": slice(20, 25),
        "test": slice(25, 30),
    }.items():
        for language, lines in (("de", SOURCE), ("en", TARGET)):
            text = "".join(f"{line}\n" for line in lines[part])
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    return folder


OWN = [
    "prepare",
    "--train",
    "corpus/train",
    "--valid",
    "corpus/valid",
    "--languages",
    "de-en",
    "--bpe-merges",
    "20",
    "--workers",
    "1",
]
OUT = ["--out", "prepared/mine"]


def info_of(folder: Path) -> Any:
    return json.loads((folder / "corpus.json").read_text("utf-8"))


def test_own_files_are_prepared_and_the_next_command_is_given(
    jtrans: Jtrans, files: Path, tmp_path: Path
) -> None:
    result = jtrans(*OWN, "--test", "corpus/test", *OUT)
    assert result.code == 0
    assert result.out == ""
    labels = [line.split("  ")[0] for line in result.err.splitlines()]
    assert labels[:5] == ["Reading", "Cleaning", "Segmenting", "Overlap", "BPE"]
    assert "Written      prepared/mine" in result.err
    assert result.err.splitlines()[-1] == (
        "Next: jtrans train demo/reformer-fast --data prepared/mine --run runs/mine-reformer-fast"
    )
    info = info_of(tmp_path / "prepared/mine")
    assert info["name"] == "mine"
    assert list(info["splits"]) == ["train", "valid", "test"]


def test_json_gives_one_object_on_stdout(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    result = jtrans(*OWN, *OUT, "--json")
    assert json.loads(result.out) == {
        "folder": "prepared/mine",
        **info_of(tmp_path / "prepared/mine"),
    }


def test_the_same_command_again_does_nothing(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    jtrans(*OWN, *OUT)
    result = jtrans(*OWN, *OUT)
    assert result.code == 0
    assert "Unchanged" in result.err and "Written" not in result.err


def test_other_options_need_force(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    jtrans(*OWN, *OUT)
    refused = jtrans(*OWN, *OUT, "--lowercase")
    assert refused.code == 2
    assert "--lowercase (off, now on)" in refused.err
    assert "or replace it with --force" in refused.err
    assert jtrans(*OWN, *OUT, "--lowercase", "--force").code == 0
    assert info_of(tmp_path / "prepared/mine")["options"]["lowercase"] is True


def test_every_option_reaches_the_corpus(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    given = {
        "--segment": "whitespace", "--target-segment": "moses", "--bpe": "separate",
        "--bpe-merges": "7", "--bpe-min-frequency": "3", "--vocabulary": "joint",
        "--min-count": "2", "--max-length": "90", "--max-ratio": "9.5",
    }  # fmt: skip
    flags = ["--lowercase", "--no-deduplicate", "--keep-leaked", "--keep-identical"]
    flags += ["--keep-wrong-script", "--no-spell", "--no-protect", "--keep-invisible", "--narrow"]
    result = jtrans(*OWN, *OUT, *[part for pair in given.items() for part in pair], *flags)
    assert result.code == 0, result.err
    assert info_of(tmp_path / "prepared/mine")["options"] == {
        "source_segment": "whitespace", "target_segment": "moses", "lowercase": True,
        "truecase": False, "jieba_dictionary": "", "bpe_codes": "", "drop_identical": False,
        "drop_wrong_script": False, "labels": [],
        "bpe": "separate", "bpe_merges": 7, "bpe_min_frequency": 3, "vocabulary": "joint",
        "min_count": 2, "spell": False, "protect": False, "strip_invisible": False,
        "max_length": 90, "max_ratio": 9.5, "deduplicate": False,
        "drop_leaked": False, "narrow": True,
    }  # fmt: skip


def test_what_counts_as_leaked_is_chosen_or_kept(
    jtrans: Jtrans, files: Path, tmp_path: Path
) -> None:
    jtrans(*OWN, *OUT, "--drop-leaked", "source")
    assert info_of(tmp_path / "prepared/mine")["options"]["drop_leaked"] == "source"
    both = jtrans(*OWN, *OUT, "--drop-leaked", "source", "--keep-leaked")
    assert both.code == 2 and "exclude each other" in both.err
    bad = jtrans(*OWN, *OUT, "--drop-leaked", "sources")
    assert bad.code == 2 and "error: unknown value 'sources' (--drop-leaked)" in bad.err
    assert "hint: did you mean source?" in bad.err


def test_train_and_test_may_repeat(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    result = jtrans(
        *OWN,
        "--train",
        "corpus/test",
        "--test",
        "corpus/test",
        "--test",
        "corpus/valid",
        "--no-deduplicate",
        "--keep-leaked",
        *OUT,
    )
    assert result.code == 0, result.err
    splits = info_of(tmp_path / "prepared/mine")["splits"]
    assert splits["train"]["pairs"] == 25
    assert list(splits) == ["train", "valid", "test", "test2"]


def test_parts_prepared_with_one_pipeline_are_put_together(
    jtrans: Jtrans, files: Path, tmp_path: Path
) -> None:
    text = ["--valid", "corpus/valid", "--languages", "de-en", "--workers", "1"]
    one = ["prepare", "--train", "corpus/train", *text, "--bpe-merges", "20", "--out", "parts/1"]
    two = ["prepare", "--train", "corpus/test", *text, "--pipeline", "parts/1", "--out", "parts/2"]
    join = ["prepare", "--train", "parts/1", "--train", "parts/2", "--out", "prepared/all"]
    results = [jtrans(*command) for command in (one, two, join)]
    assert [result.code for result in results] == [0, 0, 0], results
    assert "Pipeline     taken from parts/1, nothing learned" in results[1].err
    assert "Cleaning     kept 25 ·" in results[2].err
    assert "Next: jtrans train demo/reformer-fast --data prepared/all" in results[2].err
    assert info_of(tmp_path / "prepared/all")["splits"]["train"]["pairs"] == 25
    assert "Unchanged" in jtrans(*join).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "corpus/train"], "corpus/train is not a prepared corpus, but others"),
        (["--train", "parts/1"], "parts/1 is given twice"),
        (["--workers", "2"], "--workers has no effect on merging"),
        (["--lowercase"], "--lowercase cannot be combined with prepared corpora"),
        (["--valid", "corpus/valid"], "--valid cannot be combined with prepared corpora"),
    ],
)
def test_what_cannot_be_put_together_is_refused(
    jtrans: Jtrans, files: Path, tmp_path: Path, arguments: Any, message: str
) -> None:
    jtrans(*OWN, "--out", "parts/1")
    result = jtrans("prepare", "--train", "parts/1", *arguments, "--out", "all")
    assert result.code == 2 and message in result.err
    assert not (tmp_path / "all").exists()


def test_a_pipeline_decides_about_words_and_pieces(
    jtrans: Jtrans, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/pipeline.json").write_text("{}", encoding="utf-8")
    result = jtrans(*OWN, *OUT, "--pipeline", "other")
    assert result.code == 2 and "--pipeline already determines bpe merges" in result.err
    options = OWN[: OWN.index("--bpe-merges")]
    result = jtrans(*options, *OUT, "--pipeline", "nowhere")
    assert result.code == 2 and "no text pipeline in nowhere" in result.err
    assert not (tmp_path / "prepared").exists()


def test_text_for_fine_tuning_is_followed_by_training_from_that_run(
    jtrans: Jtrans, files: Path, run_on: RunOn, tmp_path: Path
) -> None:
    assert jtrans(*OWN, "--out", "first").code == 0
    run_on(PreparedCorpus.open(tmp_path / "first"), "runs/general")
    own = OWN[: OWN.index("--bpe-merges")]
    result = jtrans(*own, "--workers", "1", *OUT, "--pipeline", "runs/general")
    assert result.code == 0, result.err
    [command] = [line for line in result.err.splitlines() if line.startswith("Next: jtrans ")]
    arguments = command.removeprefix("Next: jtrans ").split()
    assert arguments[-2:] == ["--from", "runs/general"]
    assert jtrans(*arguments, "--set", "training.max_updates=1").code == 0


def spoil(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def put_folder(folder: Path) -> None:
    (folder / "train.de").unlink()
    (folder / "train.de").mkdir()


BAD_INPUT: dict[str, tuple[Callable[[Path], object], list[str], str]] = {
    "missing file": (lambda f: (f / "valid.en").unlink(), [], "no such file: corpus/valid.en"),
    "unequal counts": (spoil("train.en", b"one\n"), [], "has 20 lines, corpus/train.en has 1"),
    "empty": (lambda f: [spoil(f"train.{x}", b"")(f) for x in ("de", "en")], [], "are empty"),
    "blank": (lambda f: [spoil(f"train.{x}", b"\n \n")(f) for x in ("de", "en")], [], "empty 2"),
    "blank valid": (
        lambda f: [spoil(f"valid.{x}", b"\n \n")(f) for x in ("de", "en")], [],
        "valid has only empty lines: of its 2 pairs, none"),
    "binary": (spoil("train.de", bytes(range(256))), [], "zero byte"),
    "latin-1": (spoil("train.de", b"T\xfcr\n"), [], "not UTF-8 text: byte 0xfc in line 1"),
    "utf-16": (spoil("train.de", "Tür\n".encode("utf-16")), [], "is UTF-16, not UTF-8"),
    "folder": (put_folder, [], "is a folder"),
    "languages": (lambda f: None, ["--languages", "german"], "not two languages"),
    "one language": (lambda f: None, ["--languages", "de-de"], "de-de_XX"),
    "no language": (lambda f: None, ["--languages", "dx-en"], "dx is not a language code"),
    "long line": (spoil("valid.de", b"x" * 10_000_000), [], "has 1 line"),
    "longer line": (
        lambda f: [spoil(f"valid.{x}", b"x " * 5_000_000)(f) for x in ("de", "en")], [],
        "line 1 of the source of valid has 10,000,000 characters"),
    "labels": (lambda f: None, ["--labels", "tags.txt"], "neither spacy:MODEL nor conllu:FILE"),
    "no labels": (lambda f: None, ["--labels", "conllu:nowhere"], "no such file: nowhere"),
    "dictionary": (lambda f: None, ["--jieba-dictionary", "no"], "cannot read the dictionary no"),
    "empty dictionary": (
        spoil("words", b"\n \n"), ["--jieba-dictionary", "corpus/words"],
        "the dictionary corpus/words has no words"),
    "useless dictionary": (
        lambda f: None, ["--jieba-dictionary", "corpus/train.de"], "neither side uses it"),
    "segmenter": (lambda f: None, ["--segment", "mosse"], "no such segmenter: mosse"),
    "bpe": (lambda f: None, ["--bpe", "jiont"], "'joint', 'separate' or 'none' (got 'jiont')"),
    "number": (lambda f: None, ["--max-length", "0"], "--max-length"),
    "useless merges": (lambda f: None, ["--bpe", "none"], "no meaning without BPE"),
    "useless narrow": (
        lambda f: None, ["--segment", "whitespace", "--narrow"],
        "--narrow has no effect on text segmented by whitespace"),
    "useless protect": (
        lambda f: None, ["--source-segment", "whitespace", "--target-segment", "character",
                         "--protect"],
        "--protect has no effect on text segmented by whitespace and character"),
    "useless truecase": (
        lambda f: None, ["--segment", "character", "--truecase"],
        "--truecase has no effect on text segmented by character"),
    "useless merges of characters": (
        lambda f: None, ["--segment", "character"], "--bpe-merges has no effect: BPE has nothing"),
    "useless segment": (
        lambda f: None, ["--segment", "moses", "--source-segment", "unspaced",
                         "--target-segment", "jieba"], "--segment moses has no effect"),
    "name and files": (lambda f: None, ["grammar-de-en"], "cannot be combined with NAME"),
    "place": (lambda f: None, ["--out", "corpus/train.de/x"], "not a folder"),
    "not ours": (lambda f: None, ["--out", "corpus"], "is not a prepared corpus"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "extra", "part"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_one_paragraph_exit_2_and_nothing_written(
    jtrans: Jtrans, files: Path, tmp_path: Path, change: Any, extra: Any, part: str
) -> None:
    change(files)
    before = sorted(tmp_path.rglob("*"))
    result = jtrans(*OWN, *OUT, *extra)
    assert result.code == 2
    assert part in result.err
    assert result.err.count("error: ") == 1 and "hint: " in result.err
    assert "Traceback" not in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_errors_as_json(jtrans: Jtrans, files: Path) -> None:
    (files / "train.en").write_bytes(b"one\n")
    error = json.loads(jtrans(*OWN, *OUT, "--json").out)["error"]
    assert error["kind"] == "corpus.line-counts"
    assert set(error) == {"kind", "message", "hint", "where"}


def test_missing_options_are_named_together(jtrans: Jtrans) -> None:
    result = jtrans("prepare", "--train", "corpus/train")
    assert result.code == 2
    assert "--valid and --languages and --out missing" in result.err


def test_a_full_disk_is_exit_1_and_nothing_half_written(
    jtrans: Jtrans, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    result = jtrans(*OWN, *OUT)
    assert result.code == 1
    assert "error: the disk is full" in result.err
    assert "run the same command again, which starts from the beginning" in result.err
    assert {path.name for path in tmp_path.iterdir()} == {"corpus"}


def test_an_interrupt_is_exit_130_and_the_same_command_goes_on(
    jtrans: Jtrans, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes = Path.write_bytes

    def interrupt(path: Path, data: bytes) -> int:
        if "ids" in path.name:
            raise KeyboardInterrupt
        return write_bytes(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", interrupt)
        stopped = jtrans(*OWN, *OUT)
    assert stopped.code == 130
    assert "stopped; the same command continues" in stopped.err
    assert not (tmp_path / "prepared/mine").exists()
    result = jtrans(*OWN, *OUT)
    assert result.code == 0
    assert "Continuing" in result.err
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == ["mine"]


def test_truecasing_replaces_the_lower_casing_of_a_catalogue_entry(
    jtrans: Jtrans, tiny: str, tmp_path: Path
) -> None:
    assert jtrans("prepare", tiny, "--truecase").code == 0
    options = info_of(tmp_path / "data/prepared/tiny-de-en")["options"]
    assert (options["truecase"], options["lowercase"]) == (True, False)
    refused = jtrans("prepare", tiny, "--truecase", "--lowercase", "--out", "other")
    assert refused.code == 2 and "exclude each other" in refused.err


def test_words_that_jieba_cannot_find_are_named_with_their_lines(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    for name, source, target in (
        ("train", "我们用云计算。", "We use it."),
        ("valid", "他会", "He can"),
    ):
        (tmp_path / f"{name}.zh").write_text(f"{source}\n", encoding="utf-8")
        (tmp_path / f"{name}.en").write_text(f"{target}\n", encoding="utf-8")
    words = "云计算 5 n\nVisual Studio\n\n阿卜杜拉·奥贾兰 3\nC++ 3 nz\n南 京\ncafé\n"
    (tmp_path / "words").write_text(words, encoding="utf-8")
    result = jtrans(
        "prepare", "--train", "train", "--valid", "valid", "--languages", "zh-en", "--out", "out",
        "--jieba-dictionary", "words", "--bpe", "none",
    )  # fmt: skip
    assert result.code == 0, result.err
    err = " ".join(result.err.split())
    named = "line 2 (Visual Studio), line 4 (阿卜杜拉·奥贾兰 3), line 6 (南 京), line 7 (café)"
    assert named in err and "line 1" not in err and "line 5" not in err


@pytest.mark.thorough
def test_words_of_a_dictionary_stay_whole(jtrans: Jtrans, tmp_path: Path) -> None:
    lines = ["小明在清湖公园散步", "清湖公园很大", "公园里有湖"]
    for name in ("train", "valid"):
        (tmp_path / f"{name}.zh").write_text("\n".join(lines), encoding="utf-8")
        (tmp_path / f"{name}.en").write_text("a b c\nd e f\ng h i", encoding="utf-8")
    (tmp_path / "words").write_text("清湖公园 1000 n\n", encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid", "valid", "--languages", "zh-en",
               "--bpe", "none", "--keep-leaked", "--max-ratio", "9"]  # fmt: skip
    assert jtrans(*command, "--out", "plain").code == 0
    assert jtrans(*command, "--out", "known", "--jieba-dictionary", "words").code == 0
    texts = [(tmp_path / f"{x}/text/valid.tok.zh").read_text("utf-8") for x in ("plain", "known")]
    assert "清湖公园 很大" not in texts[0] and "清湖公园 很大" in texts[1]
    for line in ("清湖 公园 n", "清湖 " + "9" * 5000):
        (tmp_path / "words").write_text(f"{line}\n", encoding="utf-8")
        bad = jtrans(*command, "--out", "bad", "--jieba-dictionary", "words")
        assert bad.code == 2 and "not a line of a jieba dictionary" in bad.err


def test_swapped_sides_are_warned_of_once(jtrans: Jtrans, files: Path, tmp_path: Path) -> None:
    for name in ("train", "valid"):
        one, other = files / f"{name}.de", files / f"{name}.en"
        text = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(text)
    result = jtrans(*OWN, *OUT)
    assert result.code == 0
    assert result.err.count("warning: the sides of train look swapped") == 1


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a small corpus into the catalogue."""
    splits = {
        "train": ParallelText(SOURCE[:20], TARGET[:20]),
        "valid": ParallelText(SOURCE[20:], TARGET[20:]),
    }
    entry = Entry(
        name="tiny-de-en", title="Tiny", languages=("de", "en"),
        sentences={"train": 20, "valid": 10}, licence="MIT", citation="none", origin="this test",
        options={"bpe_merges": 15, "lowercase": True},
    )  # fmt: skip
    corpus = Corpus(entry.name, entry.languages, splits)
    monkeypatch.setattr("jtrans.corpora.download.deliver.load_built_in", lambda _name: corpus)
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny-de-en", entry)
    return "tiny-de-en"


def test_a_corpus_of_the_catalogue_comes_with_its_own_defaults(
    jtrans: Jtrans, tiny: str, tmp_path: Path
) -> None:
    assert jtrans("prepare", tiny).code == 0
    options = info_of(tmp_path / "data/prepared/tiny-de-en")["options"]
    assert (options["bpe_merges"], options["lowercase"]) == (15, True)
    assert jtrans("prepare", tiny, "--cased", "--out", "elsewhere").code == 0
    assert info_of(tmp_path / "elsewhere")["options"]["lowercase"] is False


@pytest.mark.parametrize(
    ("recipes", "expected"),
    [
        (
            ["demo/transformer"],
            "demo/reformer-fast --data data/prepared/tiny-de-en "
            "--run runs/tiny-de-en-reformer-fast",
        ),
        (["tiny-de-en/transformer", "tiny-de-en-x/a"], "tiny-de-en/transformer"),
        (["tiny-de-en/reformer-base", "tiny-de-en/reformer-fast"], "tiny-de-en/reformer-fast"),
    ],
)
def test_the_next_command_names_a_recipe_of_the_corpus(
    recipes: list[str], expected: str, jtrans: Jtrans, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.config.recipe_names", lambda: recipes)
    monkeypatch.setattr("jtrans.cli.prepare._needs_joint_vocabulary", lambda recipe: False)
    following = jtrans("prepare", tiny).err.splitlines()[-1]
    assert following == f"Next: jtrans train {expected}"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("is_joint", [False, True])
def test_a_recipe_with_one_matrix_for_both_sides_needs_a_joint_vocabulary(
    jtrans: Jtrans, is_joint: bool
) -> None:
    named = jtrans("train", "multi30k-en-de/transformer-tiny")
    assert named.code == 2 and "prepare multi30k-en-de --vocabulary joint" in named.err
    joint = ["--vocabulary", "joint"] if is_joint else []
    result = jtrans(*OWN, *joint, "--out", "data/prepared/multi30k-en-de")
    follows = "multi30k-en-de/transformer-tiny" if is_joint else "demo/reformer-fast --data"
    assert f"Next: jtrans train {follows}" in result.err
    own = OWN[: OWN.index("--bpe-merges")]
    reused = ["--workers", "1", "--pipeline", "data/prepared/multi30k-en-de", "--force"]
    result = jtrans(*own, *reused, "--out", "again/multi30k-en-de")
    assert f"Next: jtrans train {follows.partition(' ')[0]} --data again/" in result.err


@pytest.mark.usefixtures("files")
def test_own_text_in_the_folder_of_a_recipe_is_trained_with_it(jtrans: Jtrans) -> None:
    result = jtrans(*OWN, "--out", "data/prepared/multi30k-de-en")
    assert result.err.splitlines()[-1] == "Next: jtrans train multi30k-de-en/reformer-fast"


def test_an_unknown_corpus_gets_the_nearest_name(jtrans: Jtrans, tiny: str) -> None:
    result = jtrans("prepare", "tiny-de-ne")
    assert result.code == 2
    assert "no corpus called tiny-de-ne" in result.err
    assert "hint: did you mean tiny-de-en?" in result.err


def test_corpora_lists_the_catalogue(jtrans: Jtrans, tiny: str) -> None:
    result = jtrans("corpora")
    assert result.code == 0
    assert "grammar-de-en" in result.out and "tiny-de-en" in result.out


def test_corpora_says_what_is_prepared_already(jtrans: Jtrans, tiny: str) -> None:
    def here() -> Any:
        return json.loads(jtrans("corpora", tiny, "--json").out)["prepared"]

    assert here() is None
    jtrans("prepare", tiny)
    assert here() == "data/prepared/tiny-de-en"


def test_corpora_shows_licence_and_citation_of_one(jtrans: Jtrans) -> None:
    result = jtrans("corpora", "grammar-de-en")
    assert result.code == 0
    for word in ("licence", "citation", "prepared with", "train 20,000"):
        assert word in result.out


def test_corpora_shows_how_one_is_prepared_as_options(jtrans: Jtrans) -> None:
    shown = " ".join(jtrans("corpora", "iwslt14-de-en").out.split())
    for words in ("--bpe joint --bpe-merges 10000", "--lowercase", "--no-protect", "--keep-leaked"):
        assert words in shown
    assert "--keep-wide" in jtrans("corpora", "grammar-zh-en").out


def test_corpora_as_json_is_one_object(jtrans: Jtrans) -> None:
    names = [entry["name"] for entry in json.loads(jtrans("corpora", "--json").out)["corpora"]]
    assert names == list(catalogue.CATALOGUE)


@pytest.mark.parametrize("command", ["prepare", "corpora"])
def test_help_has_examples(jtrans: Jtrans, command: Any) -> None:
    result = jtrans(command, "--help")
    assert result.code == 0
    assert "Examples" in result.out and f"jtrans {command}" in result.out
