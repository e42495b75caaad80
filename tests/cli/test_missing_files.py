"""A file that is not there: every command that reads one says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn

from jtrans.data.prepared import PreparedCorpus
from jtrans.files import path_hint


@pytest.fixture
def run(corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path) -> Path:
    """A run, and a file there.en beside it."""
    (tmp_path / "there.en").write_text("Dog\n", encoding="utf-8")
    return run_on(corpus).folder


COMMANDS = [
    "score --hyp thear.en --ref there.en",
    "score --hyp there.en --ref thear.en",
    "score --hyp there.en --ref there.en --src thear.en",
    "score RUN --force thear.en --src there.en",
    "score RUN --force there.en --src thear.en",
    "translate RUN --input thear.en",
    "analyze length RUN --hyp thear.en",
    "analyze alignment RUN --gold thear.en",
    "bpe learn --merges 3 --input thear.en --output codes",
    "bpe apply --codes thear.en",
    "import thear.en --from reformer-fairseq --run new --source-dict d --target-dict d",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_gets_a_hint(jtrans: Jtrans, run: Path, command: str) -> None:
    result = jtrans(*[run if word == "RUN" else word for word in command.split()])
    assert result.code == 2
    assert "thear.en" in result.err.splitlines()[0]
    assert result.err.splitlines()[1] == "hint: did you mean there.en?"


def test_the_hint_names_a_missing_folder_or_says_that_nothing_is_like_it(tmp_path: Path) -> None:
    assert path_hint(
        tmp_path / "no" / "a.de"
    ) == f"there is no folder {tmp_path / 'no'}: check " + ("the path")
    assert "no file with a similar name" in path_hint(tmp_path / "a.de")
    (tmp_path / "a.de").touch()
    assert "read permission" in path_hint(tmp_path / "a.de")


@pytest.mark.parametrize("command", [c for c in COMMANDS if "--input" not in c])
def test_a_dash_for_a_file_that_is_not_read_from_a_pipe_gets_a_hint(
    jtrans: Jtrans, run: Path, command: str
) -> None:
    words = command.replace("thear.en", "-").split()
    result = jtrans(*[run if word == "RUN" else word for word in words])
    assert result.code == 2
    assert "hint: standard input is not read here: name a file, or in bash <(COMMAND)" in result.err


@pytest.mark.parametrize(
    "command",
    [
        "prepare --train TOO_LONG --valid b --languages de-en --out c",
        "train TOO_LONG.toml",
        "train demo/transformer --data TOO_LONG --run b",
        "recipes demo/transformer --copy TOO_LONG.toml",
    ],
)
def test_a_name_too_long_for_a_file_is_wrong_input(jtrans: Jtrans, command: str) -> None:
    result = jtrans(*command.replace("TOO_LONG", "x" * 300).split())
    assert result.code == 2
    if sys.version_info >= (3, 14) and "too long" not in result.err:
        # to its pathlib there is no such file
        assert result.err.startswith("error: no ") and "xxx" in result.err
    else:
        assert result.err.startswith("error: file name too long: xxx")
        assert "hint: choose another path" in result.err


def test_a_link_to_itself_is_wrong_input(jtrans: Jtrans, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_text("Hund\n", encoding="utf-8")
    files = ["--train", tmp_path / "train", "--valid", tmp_path / "train", "--languages", "de-en"]
    result = jtrans("prepare", *files, "--out", tmp_path / "loop")
    assert result.code == 2
    assert "bug" not in result.err and "hint: choose another path" in result.err
