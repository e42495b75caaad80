"""`jtrans quickstart`: where it may put its files. The whole job runs in scripts/demo.sh."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jtrans.cli import console, main, quickstart


class Result(NamedTuple):
    code: int
    out: str
    err: str


class BegunError(Exception):
    """The work would begin now."""


Jtrans = Callable[..., Result]


@pytest.fixture
def jtrans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Jtrans]:
    """Run the command in a folder of its own; it stops before the corpus is prepared."""

    def begin(folder: Path) -> None:
        raise BegunError(folder)

    monkeypatch.setattr(quickstart, "_prepare", begin)
    monkeypatch.setattr(main, "COMMANDS", {"quickstart": main.COMMANDS["quickstart"]})
    monkeypatch.setattr(console, "settings", console.Settings())
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as left:
            main.main(["quickstart", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        return Result(int(left.value.code or 0), out, err)

    yield call
    signal.signal(signal.SIGTERM, handler)


def _write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


FOREIGN = {
    "a file of the user": {"mine/thesis.tex": ""},
    "a run": {"mine/transformer/run.json": "{}"},
    "another corpus": {"mine/data/corpus.json": '{"name": "multi30k-de-en"}'},
    "a damaged corpus": {"mine/data/corpus.json": "{"},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_folder_with_other_things_is_refused_and_left_alone(
    jtrans: Jtrans, tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        _write(tmp_path / name, text)
    before = sorted(tmp_path.rglob("*"))
    result = jtrans("--out", "mine")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: mine is not empty, and no earlier quickstart is in it")
    assert "hint: " in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_refused(jtrans: Jtrans, tmp_path: Path) -> None:
    _write(tmp_path / "mine")
    result = jtrans("--out", "mine")
    assert result.code == 2
    assert "mine is a file, not a folder" in result.err


OWN = {
    "new": {},
    "empty": {"mine/": ""},
    "killed while preparing": {"mine/.data.work/key": "x"},
    "an earlier one": {
        "mine/data/corpus.json": '{"name": "grammar-de-en"}',
        "mine/transformer/run.json": "{}",
        "mine/notes.txt": "",
    },
}


@pytest.mark.parametrize("files", OWN.values(), ids=OWN.keys())
def test_a_new_folder_or_one_of_an_earlier_quickstart_is_used(
    jtrans: Jtrans, tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            _write(tmp_path / name, text)
    with pytest.raises(BegunError) as begun:
        main.main(["--debug", "quickstart", "--out", "mine"])
    assert begun.value.args[0] == Path("mine/data")
