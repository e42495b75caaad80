"""`jtrans bench`: what it measures, and that nothing is left behind."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import MakeRun

from jtrans.data.prepared import PreparedCorpus


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left behind in the temporary folder is seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def make_files(folder: Path) -> None:
    for name in ("train", "valid"):
        for language, word in (("de", "Haus"), ("en", "house")):
            lines = [f"{word} {i} {name}" for i in range(40)]
            (folder / f"{name}.{language}").write_text("\n".join(lines), encoding="utf-8")


def test_every_step_is_measured_and_nothing_is_left(jtrans: Jtrans, tmp_path: Path) -> None:
    make_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    command = "bench prepare --train train --valid valid --languages de-en --workers 1 --json"
    result = jtrans(*command.split())
    assert result.code == 0
    value = json.loads(result.out)
    steps = [step["step"] for step in value["steps"]]
    assert steps == ["reading", "segmenting", "cleaning", "learning", "encoding", "writing"]
    assert sum(step["share"] for step in value["steps"]) == pytest.approx(1, abs=0.01)
    assert value["pairs"] == 80 and value["peak_mib"] > 10
    assert sorted(tmp_path.iterdir()) == before
    assert str(tmp_path) not in result.err  # the place of the corpus is of no use afterwards


def test_the_table_has_a_row_for_each_step_and_one_for_all(jtrans: Jtrans, tmp_path: Path) -> None:
    make_files(tmp_path)
    command = "bench prepare --train train --valid valid --languages de-en --bpe-merges 9 --quick"
    result = jtrans(*command.split(), "--workers", "1")
    assert result.code == 0
    rows = [line.split()[0] for line in result.out.splitlines()]
    assert rows[1:] == [
        "reading", "segmenting", "cleaning", "learning", "encoding", "writing", "all",
    ]  # fmt: skip


def test_a_name_beside_files_is_refused(jtrans: Jtrans, tmp_path: Path) -> None:
    make_files(tmp_path)
    files = ("--train", "train", "--valid", "valid", "--languages", "de-en")
    result = jtrans("bench", "prepare", "grammar-de-en", *files)
    assert result.code == 2 and "files cannot be combined with NAME" in result.err


def test_a_corpus_that_is_not_built_in_is_not_measured(jtrans: Jtrans) -> None:
    result = jtrans("bench", "prepare", "wmt14-en-de")
    assert result.code == 2 and "wmt14-en-de is not a built-in corpus" in result.err


def test_half_of_ones_own_files_is_refused(jtrans: Jtrans) -> None:
    result = jtrans("bench", "prepare", "--train", "train")
    assert result.code == 2
    assert "--valid and --languages missing" in result.err


def test_a_group_without_a_command_shows_its_help(jtrans: Jtrans) -> None:
    assert "jtrans bench prepare" in jtrans("bench", "--help").out


TINY = "width=16 ffn_width=32 heads=2 layers=1 prenet_layers=1"


def tiny(*more: str) -> list[str]:
    """Return a quick `bench train` of a tiny model."""
    sizes = [word for size in TINY.split() for word in ("--set", f"model.{size}")]
    return ["bench", "train", "--device", "cpu", "--quick", *sizes, *more]


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure memory on few positions, and train for a moment."""
    from jtrans.bench import train  # it loads torch

    monkeypatch.setitem(train.MEMORY_POSITIONS, "cpu", 2_000)
    monkeypatch.setattr("jtrans.cli.bench.QUICK_SECONDS", 0.3)


@pytest.mark.slow
@pytest.mark.usefixtures("little_work")
def test_training_is_measured_on_the_built_in_corpus(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans(*tiny("--json"))
    assert result.code == 0
    value = json.loads(result.out)
    assert value["recipe"] == "demo/reformer-fast" and value["system"] == "reformer-fast"
    assert value["pairs"] == 2000 and value["updates"] >= 1
    assert 0 < value["positions_per_second"] <= value["padded_positions_per_second"]
    assert value["tokens_per_second"] < value["positions_per_second"]
    assert 0 < value["product_share"] < 1
    assert 0 <= value["position_padding"] < 0.5 and 0 <= value["token_padding"] < 0.5
    assert value["peak_bytes"] is None or value["peak_bytes"] > 2**20
    assert list(tmp_path.glob("jtrans-*")) == []


@pytest.mark.usefixtures("little_work")
def test_training_on_ones_own_corpus_shows_a_table_and_leaves_it_alone(
    jtrans: Jtrans, corpus: PreparedCorpus
) -> None:
    before = {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")}
    result = jtrans(*tiny("--data", str(corpus.folder)))
    assert result.code == 0
    lines = result.out.splitlines()
    text = "\n".join(lines)
    assert "in an epoch of 40 pairs" in text and "joint positions/s" in text
    names = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert names == ["model", "device", "measured", "rate", "arithmetic", "padding", "memory"]
    assert {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")} == before


@pytest.fixture
def little_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each search once, with two sizes of batches."""
    from jtrans.bench import decode  # it loads torch

    monkeypatch.setattr("jtrans.cli.bench.QUICK_SEARCH_SECONDS", 0.0)
    measure = functools.partial(decode.measure_decode, batches=(1, 4))
    monkeypatch.setattr(decode, "measure_decode", measure)


@pytest.mark.usefixtures("little_search")
def test_the_search_is_measured_for_each_batch_and_beam(jtrans: Jtrans) -> None:
    sizes = [word for size in TINY.split() for word in ("--set", f"model.{size}")]
    command = ["bench", "decode", "--recipe", "demo/reformer-fast", *sizes, "--quick"]
    result = jtrans(*command, "--length", 4, "--json")
    assert result.code == 0
    value = json.loads(result.out)
    assert value["system"] == "reformer-fast" and value["length"] == 4
    kinds = [(each["beam"], each["batch"]) for each in value["searches"]]
    assert kinds == [(beam, batch) for beam in (1, 5) for batch in (1, 4)]
    for each in value["searches"]:
        assert 0 < each["product_share"] < 1
        assert each["step_operations"] > 10 and each["sentences_per_second"] > 0


@pytest.mark.usefixtures("little_search")
def test_the_search_of_a_run_is_a_table(jtrans: Jtrans, make_run: MakeRun) -> None:
    result = jtrans("bench", "decode", "--run", make_run(), "--quick", "--length", 4)
    assert result.code == 0
    rows = [line.split()[:2] for line in result.out.splitlines()[1:]]
    assert rows == [["greedy", n] for n in ("1", "4")] + 2 * [["beam", "5"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "demo/reformer-fats"], "did you mean demo/reformer-fast?"),
        (["--run", "nowhere"], "no such run"),
        (["--run", "nowhere", "--recipe", "demo/transformer"], "leave one of them out"),
        (["--checkpoint", "last"], "--checkpoint has no effect without --run"),
        (["--precision", "fp8"], "unknown value 'fp8'"),
        (["--set", "model.widht=3"], "did you mean model.width?"),
    ],
)
def test_what_search_cannot_be_measured_is_refused(
    jtrans: Jtrans, arguments: list[str], message: str
) -> None:
    result = jtrans("bench", "decode", *arguments)
    assert result.code == 2
    assert message in result.err


def test_a_run_without_its_option_is_hinted_at(jtrans: Jtrans) -> None:
    result = jtrans("bench", "decode", "runs/a")
    assert result.code == 2
    assert "hint: a run is given with --run: jtrans bench decode --run runs/a" in result.err


def test_lines_that_a_system_cannot_read_are_refused(jtrans: Jtrans) -> None:
    command = "bench decode --recipe demo/convs2s --set model.positions=16 --length 17"
    result = jtrans(*command.split())
    assert result.code == 2
    assert "--length 16" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "demo/reformer-fats"], "did you mean demo/reformer-fast?"),
        (["--data", "nowhere"], "no prepared corpus in nowhere"),
        (["--device", "cpux"], "unknown device"),
        (["--set", "model.widht=3"], "did you mean model.width?"),
    ],
)
def test_what_training_cannot_be_measured_is_refused(
    jtrans: Jtrans, arguments: list[str], message: str
) -> None:
    result = jtrans("bench", "train", *arguments)
    assert result.code == 2
    assert message in result.err
