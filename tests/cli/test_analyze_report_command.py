"""`jtrans analyze attention` and `jtrans analyze report`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jtrans.cli import console, main
from jtrans.cli.analyze.attention import line_numbers
from jtrans.runs import Run

from ..analysis.conftest import JOINT, corpus, make_run, run_on

__all__ = ["corpus", "make_run", "run_on"]


class Result(NamedTuple):
    code: int
    out: str
    err: str


Jtrans = Callable[..., Result]
RunOn = Callable[..., Run]


@pytest.fixture
def jtrans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Jtrans]:
    """Run the command in a folder of its own."""
    monkeypatch.setattr(main, "COMMANDS", {"analyze": main.COMMANDS["analyze"]})
    monkeypatch.setattr(console, "settings", console.Settings())
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as left:
            main.main(["analyze", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        return Result(int(left.value.code or 0), out, err)

    yield call
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def runs(corpus: object, run_on: RunOn) -> list[Path]:
    """A Transformer and a joint system."""
    return [
        run_on(corpus, "one").folder,
        run_on(corpus, "two", config={"model": JOINT}).folder,
    ]


def test_attention_of_a_typed_sentence_is_drawn_and_printed(
    jtrans: Jtrans, runs: list[Path]
) -> None:
    result = jtrans("attention", runs[1], "--sentence", "Hund Katze", "--target", "Dog Cat")
    assert result.code == 0
    assert "Source attention of" in result.out
    folder = runs[1] / "reports"
    names = {path.name for path in folder.iterdir()}
    for kind in ("joint-source", "joint-target", "reduction"):
        for ending in ("svg", "png", "csv"):
            assert f"attention.hund-katze.{kind}.{ending}" in names
    assert 'id="attention-data"' in (folder / "attention.html").read_text(encoding="utf-8")


def test_attention_of_lines_of_the_split_is_one_json_object(
    jtrans: Jtrans, runs: list[Path]
) -> None:
    options = ("--sentences", "3", "--layer", "all", "--head", "all", "--out", "here", "--json")
    result = json.loads(jtrans("attention", *runs, *options).out)
    assert [(s["system"], s["line"]) for s in result["sentences"]] == [("one", 3), ("two", 3)]
    cross = result["sentences"][0]["views"][-1]
    assert cross["kind"] == "decoder.cross"
    assert [matrix["head"] for matrix in cross["matrices"]] == [1, 2]
    for row in cross["matrices"][0]["values"]:
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
    assert all(Path(name).is_file() for name in result["files"])


def test_lines_are_counted_from_one_and_named_once() -> None:
    assert line_numbers("3, 1,3", 12, "test") == [2, 0]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ([], "command.usage"),
        (["--sentence", "Hund", "--sentences", "1"], "command.usage"),
        (["--sentences", "1", "--target", "Dog"], "command.usage"),
        (["--sentences", "0"], "analysis.line"),
        (["--sentences", "13"], "analysis.line"),
        (["--sentences", "x"], "analysis.line"),
        (["--sentences", "1", "--split", "tset"], "corpus.unknown-split"),
        (["--sentence", " "], "analysis.empty-sentence"),
        (["--sentence", "Hund", "--layer", "0"], "command.usage"),
        (["--sentence", "Hund", "--layer", "2"], "analysis.layer"),
        (["--sentence", "Hund", "--head", "3"], "analysis.head"),
        (["--sentence", "Hund", "--source-token", "Maus"], "analysis.position"),
        (["--sentence", "Hund", "--source-token", "99"], "analysis.position"),
        (["--sentence", "Hund", "--checkpoint", "99"], "checkpoint.missing"),
    ],
)
def test_bad_input_for_attention_is_refused(
    jtrans: Jtrans, runs: list[Path], options: list[str], kind: str
) -> None:
    result = jtrans("attention", runs[1], *options, "--json")
    assert result.code == 2
    assert json.loads(result.out)["error"]["kind"] == kind
    assert not (runs[1] / "reports").exists()


def test_the_report_is_written_to_the_first_run(jtrans: Jtrans, runs: list[Path]) -> None:
    result = jtrans("report", *runs)
    page = runs[0] / "reports" / "report.html"
    assert result.code == 0
    assert page.is_file()
    assert result.out.splitlines()[-1] == str(page)
    assert "paired bootstrap" in result.out


def test_the_report_opens_in_a_browser_when_asked(
    jtrans: Jtrans, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = json.loads(jtrans("report", runs[0], "--out", "here", "--open", "--json").out)
    assert result["page"] == "here/report.html"
    assert opened == [(Path("here") / "report.html").resolve().as_uri()]
    assert result["systems"][0]["name"] == "one"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--split", "tset"], "corpus.unknown-split"),
        (["--checkpoint", "99"], "checkpoint.missing"),
        (["--precision", "fp8"], "decoding.option"),
        (["--data", "nowhere"], "corpus.not-prepared"),
    ],
)
def test_bad_input_for_a_report_is_refused(
    jtrans: Jtrans, runs: list[Path], options: list[str], kind: str
) -> None:
    result = jtrans("report", runs[0], *options, "--json")
    assert result.code == 2
    assert json.loads(result.out)["error"]["kind"] == kind
    assert not (runs[0] / "reports").exists()
