"""A file that is not there: every command that reads one says what to do."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jtrans.cli import console, main
from jtrans.files import path_hint

from ..analysis.conftest import corpus, make_run, run_on

__all__ = ["corpus", "make_run", "run_on"]


@pytest.fixture
def run(corpus: object, run_on: Callable[..., object], tmp_path: Path) -> Iterator[str]:
    """A run, and a file there.en beside it."""
    (tmp_path / "there.en").write_text("Dog\n", encoding="utf-8")
    run_on(corpus)
    handler = signal.getsignal(signal.SIGTERM)
    yield str(tmp_path / "run")
    signal.signal(signal.SIGTERM, handler)


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
def test_a_missing_file_gets_a_hint(
    run: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = command.split(maxsplit=1)[0]
    monkeypatch.setattr(main, "COMMANDS", {name: main.COMMANDS[name]})
    monkeypatch.setattr(console, "settings", console.Settings())
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main.main([run if word == "RUN" else word for word in command.split()])
    error = capsys.readouterr().err
    assert left.value.code == 2
    assert "thear.en" in error.splitlines()[0]
    assert error.splitlines()[1] == "hint: did you mean there.en?"


def test_the_hint_names_a_missing_folder_or_says_that_nothing_is_like_it(tmp_path: Path) -> None:
    assert path_hint(
        tmp_path / "no" / "a.de"
    ) == f"there is no folder {tmp_path / 'no'}: check " + ("the path")
    assert "no file with a name like it" in path_hint(tmp_path / "a.de")
    (tmp_path / "a.de").touch()
    assert "you may read it" in path_hint(tmp_path / "a.de")
