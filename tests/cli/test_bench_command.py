"""`jtrans bench`: what it measures, and that nothing is left behind."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path

import pytest

from jtrans.cli import console, main


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "settings", console.Settings())
    monkeypatch.setattr(main, "COMMANDS", {"bench": main.COMMANDS["bench"]})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main.main(list(arguments))
    return int(left.value.code or 0)


def make_files(folder: Path) -> None:
    for name in ("train", "valid"):
        for language, word in (("de", "Haus"), ("en", "house")):
            lines = [f"{word} {i} {name}" for i in range(40)]
            (folder / f"{name}.{language}").write_text("\n".join(lines), encoding="utf-8")


def test_every_step_is_measured_and_nothing_is_left(tmp_path, capsys) -> None:
    make_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    command = "bench prepare --train train --valid valid --languages de-en --workers 1 --json"
    assert run(*command.split()) == 0
    value = json.loads(capsys.readouterr().out)
    steps = [step["step"] for step in value["steps"]]
    assert steps == ["reading", "segmenting", "cleaning", "learning", "encoding", "writing"]
    assert sum(step["share"] for step in value["steps"]) == pytest.approx(1, abs=0.01)
    assert value["pairs"] == 80 and value["peak_mib"] > 10
    assert sorted(tmp_path.iterdir()) == before


def test_the_table_has_a_row_for_each_step_and_one_for_all(tmp_path, capsys) -> None:
    make_files(tmp_path)
    command = "bench prepare --train train --valid valid --languages de-en --bpe-merges 9 --quick"
    assert run(*command.split(), "--workers", "1") == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        "reading", "segmenting", "cleaning", "learning", "encoding", "writing", "all",
    ]  # fmt: skip


def test_half_of_ones_own_files_is_refused(capsys) -> None:
    assert run("bench", "prepare", "--train", "train") == 2
    assert "need --train, --valid and --languages" in capsys.readouterr().err


def test_a_group_without_a_command_shows_its_help(capsys) -> None:
    run("bench", "--help")
    assert "jtrans bench prepare" in capsys.readouterr().out


TINY = "width=16 ffn_width=32 heads=2 layers=1 prenet_layers=1"


def tiny(*more: str) -> list[str]:
    """Return a quick `bench train` of a tiny model."""
    sizes = [word for size in TINY.split() for word in ("--set", f"model.{size}")]
    return ["bench", "train", "--device", "cpu", "--quick", *sizes, *more]


@pytest.fixture
def prepared(tmp_path: Path, capsys) -> Path:
    make_files(tmp_path)
    from jtrans.corpora.own_files import read_corpus
    from jtrans.preparation.options import PrepareOptions
    from jtrans.preparation.prepare import prepare

    corpus = read_corpus(
        "houses", ("de", "en"), train=[str(tmp_path / "train")], valid=str(tmp_path / "valid")
    )
    options = PrepareOptions(bpe="none", source_segment="whitespace", target_segment="whitespace")
    return prepare(corpus, tmp_path / "prepared", options=options, workers=1).folder


def test_training_is_measured_on_the_built_in_corpus(tmp_path, capsys) -> None:
    assert run(*tiny("--json")) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["recipe"] == "demo/reformer-fast" and value["system"] == "reformer-fast"
    assert value["pairs"] == 2000 and value["updates"] >= 1
    assert 0 < value["positions_per_second"] <= value["padded_positions_per_second"]
    assert value["tokens_per_second"] < value["positions_per_second"]
    assert 0 < value["product_share"] < 1
    assert 0 <= value["position_padding"] < 0.5 and 0 <= value["token_padding"] < 0.5
    assert value["peak_bytes"] is None or value["peak_bytes"] > 2**20
    assert list(tmp_path.glob("jtrans-*")) == []


def test_training_on_ones_own_corpus_shows_a_table_and_leaves_it_alone(prepared, capsys) -> None:
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    assert run(*tiny("--data", str(prepared))) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert "in an epoch of 40 pairs" in text and "joint positions/s" in text
    names = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert names == ["model", "device", "measured", "rate", "arithmetic", "padding", "memory"]
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*")} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "demo/reformer-fats"], "did you mean demo/reformer-fast?"),
        (["--data", "nowhere"], "no prepared corpus in nowhere"),
        (["--device", "cpux"], "unknown device"),
        (["--set", "model.widht=3"], "did you mean model.width?"),
    ],
)
def test_what_training_cannot_be_measured_is_refused(arguments, message, capsys) -> None:
    assert run("bench", "train", *arguments) == 2
    assert message in capsys.readouterr().err
