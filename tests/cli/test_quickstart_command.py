"""`jtrans quickstart`: where it may put its files. The whole job runs in scripts/demo.sh."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.command_line import Jtrans

from jtrans.errors import CorpusError


class BegunError(Exception):
    """The work would begin now."""


@pytest.fixture(autouse=True)
def _stop_at_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop before the corpus is prepared."""

    def begin(corpus: str, *, out: Path, **_options: object) -> None:
        raise BegunError(out)

    monkeypatch.setattr("jtrans.api.prepare", begin)


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
    result = jtrans("quickstart", "--out", "mine")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: mine is not empty and does not hold an earlier quickstart")
    assert "hint: " in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_corpus_of_another_version_is_left_alone(
    jtrans: Jtrans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "mine/data/corpus.json", '{"name": "grammar-de-en"}')

    def refuse(corpus: str, **_options: object) -> None:
        raise CorpusError("other rules", hint="--force", kind="corpus.exists")

    monkeypatch.setattr("jtrans.api.prepare", refuse)
    result = jtrans("quickstart", "--out", "mine")
    assert result.code == 2 and "hint: choose another folder: --out runs/first" in result.err


def test_a_file_is_refused(jtrans: Jtrans, tmp_path: Path) -> None:
    _write(tmp_path / "mine")
    result = jtrans("quickstart", "--out", "mine")
    assert result.code == 2
    assert "mine is a file, not a folder" in result.err


OWN = {
    "new": {},
    "empty": {"mine/": ""},
    "killed while preparing": {"mine/.data.work/key": "x", "mine/.data.work.lock": ""},
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
    assert "BegunError: mine/data\n" in jtrans("quickstart", "--out", "mine").err
