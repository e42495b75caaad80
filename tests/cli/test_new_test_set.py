"""`jtrans prepare --pipeline RUN` without training text, and what reads such a corpus."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.folders import contents
from plugins.random_runs import MakeRun, facts_of
from plugins.sentence_pairs import PAIRS

import jtrans as library
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation import encode as encoding

TEXT = ["--languages", "de-en", "--workers", "1"]
REUSED = [*TEXT, "--pipeline", "run"]
NEW = ["prepare", "--test", "new", *REUSED, "--out", "data/new"]


def write(prefix: str, start: int, stop: int) -> None:
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS[start:stop])
        Path(f"{prefix}.{language}").write_text(text, encoding="utf-8", newline="\n")


@pytest.fixture
def run(jtrans: Jtrans, make_run: MakeRun) -> Path:
    """A run, the corpus that it was trained on, and a new test set."""
    for prefix, start, stop in (("train", 0, 60), ("valid", 60, 70), ("new", 70, 80)):
        write(prefix, start, stop)
    result = jtrans("prepare", "--train", "train", "--valid", "valid", *TEXT, "--bpe-merges", 20,
                    "--out", "data/own")  # fmt: skip
    assert result.code == 0, result.err
    corpus = PreparedCorpus.open(Path("data/own"))
    own = make_run("run", pipeline=corpus.pipeline, corpus="own", **facts_of(corpus))
    shutil.copyfile(corpus.word_counts_path("target"), own / "target.words.gz")
    shutil.copytree(own, "runs/named")
    return own


def scores(jtrans: Jtrans, *arguments: Any) -> list[dict[str, Any]]:
    result = jtrans("score", *arguments, "--json")
    assert result.code == 0, result.err
    systems: list[dict[str, Any]] = json.loads(result.out)["systems"]
    return [{**system, "tokens_per_second": None} for system in systems]


def prepared(name: str) -> PreparedCorpus:
    return PreparedCorpus.open(Path("data") / name)


@pytest.mark.parametrize("references", [1, 2])
def test_a_test_set_alone_gives_the_scores_of_a_corpus_prepared_in_full(
    jtrans: Jtrans, run: Path, references: int
) -> None:
    if references == 2:
        write("other", 71, 81)
        Path("new.en").rename("new.0.en")
        Path("other.en").rename("new.1.en")
    full = ["--train", "train", "--valid", "valid", "--test", "new", *REUSED]
    assert jtrans("prepare", *full, "--out", "data/full").code == 0
    result = jtrans(*NEW)
    assert result.code == 0, result.err
    assert result.err.splitlines()[-1] == "Next: jtrans score run --data data/new"
    made, whole = contents(Path("data/new")), contents(Path("data/full"))
    assert sorted({name.partition(".")[0] for name in made}) == [
        *("corpus", "pipeline", "test", "text/test"),
    ]
    del made["corpus.json"]
    assert made.items() <= whole.items()
    assert prepared("new").splits == ["test"]
    assert len(prepared("new").references("test")) == references
    assert prepared("new").info["splits"]["test"] == prepared("full").info["splits"]["test"]
    by_search = ["--sweep", "beam=1,3"]
    ours = scores(jtrans, run, "runs/named", "--data", "data/new", *by_search)
    assert ours == scores(jtrans, run, "runs/named", "--data", "data/full", *by_search)
    assert len(ours) == 4 and ours[0]["sentences"] == 10


def test_what_is_shown_is_of_the_splits_there_are(jtrans: Jtrans, run: Path) -> None:
    lines = jtrans(*NEW).err.splitlines()
    labels = [line.split("  ")[0] for line in lines]
    assert labels[:4] == ["Reading", "Segmenting", "Pipeline", "Vocabulary"]
    assert lines[0] == "Reading      test 10"
    assert "Words        de 70 · en 70" in lines
    assert not any("train" in line for line in lines)


def test_the_same_command_again_changes_nothing(jtrans: Jtrans, run: Path) -> None:
    jtrans(*NEW)
    before = contents(Path("data/new"))
    again = jtrans(*NEW)
    assert again.code == 0 and "Unchanged" in again.err and "Written" not in again.err
    assert contents(Path("data/new")) == before
    other = jtrans(*NEW, "--valid", "valid")
    assert other.code == 2 and "holds another prepared corpus: different text" in other.err


def test_an_interrupted_preparation_goes_on(
    jtrans: Jtrans, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jtrans(*NEW)
    whole = contents(Path("data/new"))
    shutil.rmtree("data/new")

    def stop(_job: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(encoding, "encode_part", stop)
        assert jtrans(*NEW).code == 130
    result = jtrans(*NEW)
    assert result.code == 0 and "Continuing" in result.err
    assert contents(Path("data/new")) == whole


@pytest.mark.parametrize(
    ("given", "splits", "next_step"),
    [
        (["--valid", "valid"], ["valid"], "score run --data data/x --split valid"),
        (["--test", "new", "--test", "valid"], ["test", "test2"], "score run --data data/x"),
        (["--valid", "valid", "--test", "new"], ["valid", "test"], "score run --data data/x"),
        (["--test", "new", "--test", "train"], ["test", "test2"], "score run --data data/x"),
        (["--train", "train", "--test", "new"], ["train", "test"], "score run --data data/x"),
        (["--train", "train"], ["train"], None),
    ],
)
def test_any_splits_will_do_with_a_pipeline(
    jtrans: Jtrans, run: Path, given: list[str], splits: list[str], next_step: str | None
) -> None:
    result = jtrans("prepare", *given, *REUSED, "--out", "data/x")
    assert result.code == 0, result.err
    assert prepared("x").splits == splits
    steps = [line for line in result.err.splitlines() if line.startswith("Next: ")]
    assert steps == ([f"Next: jtrans {next_step}"] if next_step else [])
    prepared("x").check_files()


def test_leaks_are_found_and_dropped_without_valid(jtrans: Jtrans, run: Path) -> None:
    write("train", 50, 75)
    result = jtrans("prepare", "--train", "train", "--test", "new", *REUSED, "--out", "data/x")
    assert "in valid/test 5" in result.err
    assert prepared("x").info["overlap"]["test"]["pair"] == 5


@pytest.mark.parametrize("language", ["de", "en"])
def test_pieces_and_escapes_of_a_test_set_alone_are_warned_of(
    jtrans: Jtrans, run: Path, language: str
) -> None:
    path = Path(f"new.{language}")
    path.write_text(path.read_text(encoding="utf-8").replace(" ", " &apos; "), encoding="utf-8")
    expected = f"warning: test.{language} has escaped characters in 10 of its first 10 lines"
    assert expected in jtrans(*NEW).err


def test_a_run_is_found_by_its_name(jtrans: Jtrans, run: Path) -> None:
    Path("named").mkdir()  # a folder without a pipeline
    for name in ("named", "@last"):
        options = ["--pipeline", name, "--out", "data/new"]
        result = jtrans("prepare", "--test", "new", *TEXT, *options)
        assert result.code == 0, result.err
    assert prepared("new").info["pipeline_from"] == "runs/named"


def test_python_prepares_a_test_set_alone(run: Path) -> None:
    corpus = library.prepare(test="new", languages="de-en", pipeline=run, out="data/new", workers=1)
    assert corpus.splits == ["test"]
    assert corpus.pipeline.fingerprint() == prepared("own").pipeline.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (REUSED, "your own files: --train, --valid or --test missing"),
        (["--test", "new", "--pipeline", "run"], "--languages missing"),
        (["--test", "new", *TEXT], "--train and --valid missing"),
        (["--test", "new", *TEXT], "to score a run on, --pipeline RUN"),
        (["--test", "new", *REUSED, "--max-length", 9], "--max-length has no effect without --tr"),
        (
            ["--test", "new", *REUSED, "--keep-leaked"],
            "--keep-leaked has no effect without --train",
        ),
        (["--test", "new", *REUSED, "--valid-size", 2], "--valid-size has no effect without --tr"),
        (["--test", "new", *REUSED, "--no-deduplicate"], "--no-deduplicate has no effect without"),
        (["--test", "new", *TEXT, "--pipeline", "nowhere"], "no text pipeline in nowhere"),
        (["--test", "new", *TEXT, "--pipeline", "name"], "did you mean named?"),
        (["--test", "bad", *REUSED], "or leave such lines out: --skip-bad-lines"),
        (["--test", "blank", *REUSED], "test has only empty lines"),
    ],
)
def test_what_cannot_be_prepared_is_refused(
    jtrans: Jtrans, run: Path, arguments: list[str], expected: str
) -> None:
    write("bad", 0, 2)
    Path("bad.de").write_bytes(b"\xff\n.\n")
    for language in ("de", "en"):
        Path(f"blank.{language}").write_text("\n\n", encoding="utf-8")
    result = jtrans("prepare", *arguments, "--out", "data/x")
    assert result.code == 2 and expected in result.err
    assert not Path("data/x").exists()


def test_a_missing_split_is_told_with_those_there_are(jtrans: Jtrans, run: Path) -> None:
    jtrans("prepare", "--test", "new", "--test", "valid", *REUSED, "--out", "data/new")
    for command in (["score"], ["analyze", "length"]):
        result = jtrans(*command, run, "--data", "data/new", "--split", "valid")
        assert result.code == 2
        assert "data/new has no split valid\nhint: it has test, test2\n" in result.err
    near = jtrans("score", run, "--data", "data/new", "--split", "tset")
    assert "did you mean test? it has test, test2" in near.err


TINY = ["demo/transformer-small", "--device", "cpu"]


@pytest.mark.parametrize(
    "command",
    [
        ["train", *TINY, "--run", "runs/x"],
        ["train", *TINY, "--run", "runs/x", "--dry-run"],
        ["train", *TINY, "--run", "runs/x", "--from", "run"],
        ["train", "run/config.toml"],  # it would continue
        ["bench", "train", "--recipe", "demo/transformer-small"],
        ["scale", "demo/reformer-fast-tiny", "--ratio", "2", "--run", "--out", "trials"],
    ],
)
def test_training_needs_train_and_valid(jtrans: Jtrans, run: Path, command: list[str]) -> None:
    jtrans(*NEW)
    jtrans("prepare", "--train", "train", *REUSED, "--out", "data/unvalidated")
    shutil.copytree(run, "trials/base-1")  # scaling would continue it
    needed = "error: training needs train and valid, and data/"
    result = jtrans(*command, "--data", "data/new")
    assert result.code == 2
    assert f"{needed}new has no train and no valid\nhint: it has test; " in result.err
    result = jtrans(*command, "--data", "data/unvalidated")
    assert result.code == 2
    assert f"{needed}unvalidated has no valid\nhint: it has train; " in result.err
    assert not Path("runs/x").exists()


def test_a_run_whose_corpus_became_a_test_set_says_so(jtrans: Jtrans, run: Path) -> None:
    """A corpus of the name that a recipe looks for is not taken for that of a moved run."""
    config = run / "config.toml"
    text = f'[data]\ncorpus = "own"\n\n{config.read_text(encoding="utf-8")}'
    config.write_text(text, encoding="utf-8")
    shutil.move("data/own", "data/elsewhere")
    assert jtrans(*NEW[:-1], "data/prepared/own").code == 0
    result = jtrans("train", config)
    assert result.code == 2 and "is no longer in data/own" in result.err


@pytest.mark.parametrize("parts", [["own", "new"], ["new", "own"], ["new"]])
def test_a_test_set_is_no_part_to_merge(jtrans: Jtrans, run: Path, parts: list[str]) -> None:
    jtrans(*NEW)
    given = [word for name in parts for word in ("--train", f"data/{name}")]
    result = jtrans("prepare", *given, "--out", "data/all")
    assert result.code == 2 and "data/new has no training text" in result.err


def test_parts_without_valid_are_merged(jtrans: Jtrans, run: Path) -> None:
    write("more", 80, 90)
    for name in ("train", "more"):
        jtrans("prepare", "--train", name, *REUSED, "--out", f"data/{name}")
    result = jtrans("prepare", "--train", "data/train", "--train", "data/more", "--out", "data/all")
    assert result.code == 0, result.err
    assert prepared("all").splits == ["train"]
    assert prepared("all").info["splits"]["train"]["pairs"] == 70


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_report_counts_words_in_the_text_the_run_was_trained_on(
    jtrans: Jtrans, run: Path
) -> None:
    jtrans(*NEW)
    result = jtrans("analyze", "report", run, "--data", "data/new", "--out", "out")
    assert result.code == 0, result.err
    assert "left out" not in result.err
    assert "in the training data of own" in Path("out/report.html").read_text(encoding="utf-8")
    full = ["--train", "valid", "--valid", "valid", "--test", "new", "--keep-leaked"]
    assert jtrans("prepare", *full, *REUSED, "--out", "data/full").code == 0
    ours, theirs = (
        json.loads(jtrans("analyze", "frequency", run, "--data", data, "--json").out)["results"]
        for data in ("data/new", "data/full")
    )
    assert ours == theirs


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize("data", ["data/gone", "data/new"])
def test_without_training_text_a_report_leaves_out_its_frequencies(
    jtrans: Jtrans, run: Path, data: str
) -> None:
    jtrans(*NEW)
    (run / "target.words.gz").unlink()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**record, "data": data}), encoding="utf-8")
    result = jtrans("analyze", "frequency", run, "--data", "data/new")
    assert result.code == 2
    assert "no training text to count words in: that of run was not found" in result.err
    result = jtrans("analyze", "report", run, "--data", "data/new", "--out", "out")
    assert result.code == 0, result.err
    assert "Quality by training frequency is left out: no training text" in result.err
    assert "By training frequency" not in Path("out/report.html").read_text(encoding="utf-8")
