"""`jtrans bench prepare`: times of all steps, and nothing left behind."""

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
