"""`jtrans analyze attention` and `jtrans analyze report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import JOINT, RunOn

from jtrans.cli.analyze.attention import line_numbers
from jtrans.data.prepared import PreparedCorpus


@pytest.fixture
def runs(corpus: PreparedCorpus, run_on: RunOn) -> list[Path]:
    """A Transformer and a joint system."""
    return [
        run_on(corpus, "one").folder,
        run_on(corpus, "two", config={"model": JOINT}).folder,
    ]


def test_attention_of_a_typed_sentence_is_drawn_and_printed(
    jtrans: Jtrans, runs: list[Path]
) -> None:
    pair = ("--sentence", "Hund Katze", "--target", "Dog Cat")
    result = jtrans("analyze", "attention", runs[1], *pair)
    assert result.code == 0
    assert "Source attention of" in result.out
    folder = runs[1] / "reports"
    names = {path.name for path in folder.iterdir()}
    for kind in ("joint-source", "joint-target", "reduction"):
        for ending in ("svg", "pdf", "png", "csv"):
            assert f"attention.hund-katze.{kind}.{ending}" in names
    assert 'id="attention-data"' in (folder / "attention.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("placeholder_pictures")
def test_attention_of_lines_of_the_split_is_one_json_object(
    jtrans: Jtrans, runs: list[Path]
) -> None:
    options = ("--sentences", "3", "--layer", "all", "--head", "all", "--out", "here", "--json")
    result = json.loads(jtrans("analyze", "attention", *runs, *options).out)
    assert [(s["system"], s["line"]) for s in result["sentences"]] == [("one", 3), ("two", 3)]
    cross = result["sentences"][0]["views"][-1]
    assert cross["kind"] == "decoder.cross"
    assert [matrix["head"] for matrix in cross["matrices"]] == [1, 2]
    for row in cross["matrices"][0]["values"]:
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
    assert all(Path(name).is_file() for name in result["files"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("option", ["--source-token", "--target-token"])
def test_slices_of_systems_without_a_grid_are_refused(
    jtrans: Jtrans, runs: list[Path], option: str
) -> None:
    result = jtrans("analyze", "attention", runs[0], "--sentence", "Hund", option, "1")
    assert result.code == 2 and f"{option} has no effect" in result.err
    assert jtrans("analyze", "attention", *runs, "--sentence", "Hund", option, "1").code == 0


def test_an_empty_line_is_refused_by_its_number(
    jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus
) -> None:
    text = corpus.folder / "text/test.de"
    lines = text.read_text(encoding="utf-8").splitlines()
    text.write_text("".join(f"{line}\n" for line in [lines[0], "", *lines[2:]]), encoding="utf-8")
    result = jtrans("analyze", "attention", runs[0], "--sentences", "1,2")
    assert result.code == 2 and "line 2 of test is empty" in result.err
    assert not (runs[0] / "reports").exists()


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
        (["--sentence", "Hund " * 1024], "analysis.long-sentence"),
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
    result = jtrans("analyze", "attention", runs[1], *options, "--json")
    assert result.code == 2
    assert json.loads(result.out)["error"]["kind"] == kind
    assert not (runs[1] / "reports").exists()


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_report_is_written_to_the_first_run(jtrans: Jtrans, runs: list[Path]) -> None:
    result = jtrans("analyze", "report", *runs)
    page = runs[0] / "reports" / "report.html"
    assert result.code == 0
    assert page.is_file()
    assert result.out.splitlines()[-1] == str(page)
    assert "paired bootstrap" in result.out


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_report_opens_in_a_browser_when_asked(
    jtrans: Jtrans, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    options = ("--out", "here", "--open", "--json")
    result = json.loads(jtrans("analyze", "report", runs[0], *options).out)
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
    result = jtrans("analyze", "report", runs[0], *options, "--json")
    assert result.code == 2
    assert json.loads(result.out)["error"]["kind"] == kind
    assert not (runs[0] / "reports").exists()
