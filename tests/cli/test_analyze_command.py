"""`jtrans analyze`: files, tables, JSON and refusals."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
import torch
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn
from plugins.small_corpus import make_nouns

from jtrans.data.prepared import PreparedCorpus


@pytest.fixture
def runs(corpus: PreparedCorpus, run_on: RunOn) -> list[Path]:
    """Two runs that differ by more than the seed."""
    return [
        run_on(corpus, "one").folder,
        run_on(corpus, "two", weights_seed=2, config={"training": {"learning_rate": 0.5}}).folder,
    ]


FIGURES = {
    "length": ["length-ratio", "length-difference", "length-score", "length-bleu"],
    "position": ["position", "position-words", "position-relative"],
    "frequency": ["frequency", "frequency-f-measure"],
}


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_next_command_quotes_names(jtrans: Jtrans, runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a b").symlink_to(runs[0])
    result = jtrans("analyze", "length", tmp_path / "a b", "--out", tmp_path / "out")
    assert f"Next: jtrans analyze report '{tmp_path / 'a b'}'" in result.err


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_next_command_reads_the_same_corpus(
    jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus, tmp_path: Path
) -> None:
    moved = corpus.folder.rename(tmp_path / "moved")
    given = ("--split", "valid", "--data", moved, "--checkpoint", "last", "--beam", "1")
    result = jtrans("analyze", "length", runs[0], *given, "--out", tmp_path / "out")
    suggested = result.err.splitlines()[-1]
    assert suggested == f"Next: jtrans analyze report {runs[0]} {' '.join(map(str, given))}"


@pytest.mark.parametrize("analysis", FIGURES)
def test_figures_are_printed_and_written_to_the_first_run(
    jtrans: Jtrans, runs: list[Path], analysis: str
) -> None:
    result = jtrans("analyze", analysis, *runs)
    assert result.code == 0
    assert "one" in result.out and "two" in result.out
    assert "nan" not in result.out.lower()
    assert result.err.splitlines()[-1].startswith("Next: jtrans analyze ")
    written = sorted(path.name for path in (runs[0] / "reports").iterdir())
    endings = ("csv", "json", "pdf", "png", "svg", "tex")
    assert written == sorted(f"test.{name}.{end}" for name in FIGURES[analysis] for end in endings)


@pytest.mark.parametrize("analysis", [["length"], ["attention", "--sentence", "a b"]])
@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_place_of_the_output_folder_is_refused_before_any_work(
    jtrans: Jtrans, runs: list[Path], analysis: list[str], place: str, loaded_runs: list[str]
) -> None:
    Path("file").write_text("mine", encoding="utf-8")
    result = jtrans("analyze", analysis[0], runs[0], *analysis[1:], "--out", place)
    assert result.code == 2 and "file is a file: cannot write" in result.err
    assert not loaded_runs and Path("file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("analysis", "name"),
    [
        (["length"], "bleu.SVG"),
        (["report"], "my page.html"),
        (["attention", "--sentence", "a b"], "attention.html"),
        (["layers"], "layers.json"),
    ],
)
def test_an_output_folder_named_like_a_file_is_refused(
    jtrans: Jtrans, runs: list[Path], analysis: list[str], name: str, loaded_runs: list[str]
) -> None:
    result = jtrans("analyze", analysis[0], runs[0], *analysis[1:], "--out", name)
    assert result.code == 2 and f"--out {name} is named like a file" in result.err
    assert f"hint: --out {shlex.quote(Path(name).stem)}\n" in result.err
    assert not loaded_runs and not Path(name).exists()


def test_int8_is_refused_before_any_work(
    jtrans: Jtrans, runs: list[Path], loaded_runs: list[str]
) -> None:
    result = jtrans("analyze", "length", runs[0], "--precision", "int8")
    assert result.code == 2 and "int8" in result.err and not loaded_runs


@pytest.mark.thorough
def test_attention_is_compared_on_the_same_sentences(
    jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    other = run_on(make_nouns(tmp_path / "other", test_seed=5), "three").folder
    refused = jtrans("analyze", "attention", runs[0], other, "--sentences", "1,2")
    assert refused.code == 2 and "three and one have different sentences in test" in refused.err
    data = ("--data", corpus.folder, "--out", tmp_path / "out")
    assert jtrans("analyze", "attention", runs[0], other, "--sentences", "1,2", *data).code == 0


@pytest.mark.usefixtures("placeholder_pictures")
def test_json_gives_the_numbers_and_the_files(jtrans: Jtrans, runs: list[Path]) -> None:
    result = jtrans("analyze", "length", *runs, "--json", "--out", "here", "--split", "valid")
    content = json.loads(result.out)
    assert (content["analysis"], content["split"], content["sentences"]) == ("length", "valid", 4)
    assert [item["name"] for item in content["results"]] == FIGURES["length"]
    [*_, score, bleu] = content["results"]
    assert [series["system"] for series in bleu["series"]] == ["one", "two"]
    assert score["series"][0]["values"][1:] == [None] * 4
    assert all(Path(name).is_file() for name in content["files"])
    assert content["files"][0].startswith("here/valid.")


@pytest.mark.usefixtures("placeholder_pictures")
def test_edges_and_quantiles_choose_the_bins(jtrans: Jtrans, runs: list[Path]) -> None:
    edges = json.loads(jtrans("analyze", "frequency", runs[0], "--edges", "6,8", "--json").out)
    assert [item["bins"] for item in edges["results"]] == [["0–6", "7–8", ">8"]] * 2
    even = json.loads(jtrans("analyze", "length", runs[0], "--bins", "quantile", "--json").out)
    assert min(even["results"][-1]["counts"]) > 0


def test_alignments_are_written_and_measured_against_gold(
    jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus
) -> None:
    words = corpus.words_lines("test", "source")
    gold = "".join(" ".join(f"{i}-{i}" for i in range(len(w))) + "\n" for w in words)
    Path("gold").write_text(gold, encoding="utf-8")
    result = jtrans("analyze", "alignment", *runs, "--gold", "gold")
    assert result.code == 0
    assert "AER" in result.out
    for name in ("one", "two"):
        lines = (runs[0] / f"reports/test.{name}.alignments.txt").read_text("utf-8").splitlines()
        assert [len(line.split()) for line in lines] == [len(w) for w in words]
    corpus_gold = corpus.folder / "text/test.alignments.txt"
    corpus_gold.write_text(gold, encoding="utf-8")
    assert jtrans("analyze", "alignment", *runs).out == result.out


@pytest.mark.usefixtures("placeholder_pictures")
def test_weights_of_layers_are_shown_where_a_system_learns_them(
    jtrans: Jtrans, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = jtrans("analyze", "layers", *runs)
    assert refused.code == 2 and "systems that have them: dlcl" in refused.err
    tables = {"encoder": torch.eye(3), "decoder": torch.tril(-torch.ones(2, 2))}
    model = "jtrans.models.transformer.Transformer"
    monkeypatch.setattr(f"{model}.layer_weights", lambda _: tables)
    shown = jtrans("analyze", "layers", *runs, "--out", "here", "--json")
    content = json.loads(shown.out)
    assert [system["name"] for system in content["systems"]] == ["one", "two"]
    assert [item["type"] for item in content["results"]] == ["table", *["heatmap"] * 4]
    assert content["results"][1]["shares"][1] == [0.0, 1.0, None]
    assert len(content["files"]) == 3 + 4 * 6 and all(map(os.path.exists, content["files"]))
    report = jtrans("analyze", "report", runs[0])
    assert report.code == 0, report.err
    page = (runs[0] / "reports/report.html").read_text(encoding="utf-8")
    assert "Weights of earlier layers" in page and "one: encoder, weights" in page


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_system_without_attention_maps_has_no_alignments(
    jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.models.transformer.Transformer.explain", lambda *_: [])
    words = corpus.words_lines("test", "source")
    gold = "".join("0-0\n" if line else "\n" for line in words)
    (corpus.folder / "text/test.alignments.txt").write_text(gold, encoding="utf-8")
    aligned = jtrans("analyze", "alignment", runs[0])
    assert aligned.code == 2 and "one has no attention" in aligned.err
    shown = jtrans("analyze", "attention", runs[0], "--sentence", "a b")
    assert shown.code == 2 and "one has no attention" in shown.err
    assert not (runs[0] / "reports").exists()
    report = jtrans("analyze", "report", *runs)
    assert report.code == 0, report.err
    assert "AER" not in (runs[0] / "reports/report.html").read_text("utf-8")


@pytest.mark.usefixtures("placeholder_pictures")
def test_attention_of_pairs_with_the_same_first_words_has_files_of_its_own(
    jtrans: Jtrans, runs: list[Path], tmp_path: Path
) -> None:
    line = ("analyze", "attention", runs[0], "--out", "out")
    for sentence, target in (("a b", "c"), ("a b!", "c"), ("a b", "d"), ("a b", "c")):
        assert jtrans(*line, "--sentence", sentence, "--target", target).code == 0
    pairs = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")}
    assert {name: (pair["source"], pair["target"]) for name, pair in pairs.items()} == {
        "attention.a-b": ("a b", "c"),
        "attention.a-b-2": ("a b!", "c"),
        "attention.a-b-3": ("a b", "d"),
    }


@pytest.mark.usefixtures("placeholder_pictures")
def test_systems_are_compared(jtrans: Jtrans, runs: list[Path], corpus: PreparedCorpus) -> None:
    lines = corpus.raw_lines("test", "target")
    Path("perfect.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = jtrans("analyze", "compare", runs[0], "--hyp", "perfect.en", "--top", "2")
    assert result.code == 0
    assert "Sentences where perfect.en and one differ most" in result.out
    assert "90–100" in result.out and (runs[0] / "reports/test.sentence-bleu.svg").is_file()
    assert "nan" not in result.out.lower()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["length", "nowhere"], "no such run: nowhere"),
        (["length", "ONE", "--split", "tset"], "has no split tset"),
        (["length", "ONE", "--bins", "quantil"], "unknown bins 'quantil'"),
        (["length", "ONE", "--edges", "5,9", "--bins", "quantile"], "--bins and --edges exclude"),
        (["length", "ONE", "--edges", "5,2"], "edges '5,2' are not increasing"),
        (["length", "ONE", "ONE"], "one is given twice"),
        (["length", "ONE", "--hyp", "none.en"], "no such file: none.en"),
        (["length", "ONE", "--precision", "half"], "unknown value 'half'"),
        (["length", "ONE", "--device", "gpu"], "unknown device: gpu"),
        (["position", "ONE", "--checkpoint", "7"], "no checkpoint 7"),
        (["compare", "ONE"], "only one system: one"),
        (["attention", "ONE", "--sentence", "a", "--split", "valid"], "--split has no effect with"),
        (["attention", "ONE", "--sentence", "a", "--data", "x"], "--data has no effect with"),
        (["alignment", "ONE", "--layer", "cross"], "no attention map 'cross'"),
        (["alignment", "ONE", "--gold", "gold"], "9-0 is outside the sentence"),
        (["alignment", "ONE", "--gold", "blank"], "blank has no links to words"),
        (["alignment", "ONE", "--gold", "short"], "be empty if it has none"),
    ],
)
def test_bad_input_is_refused(
    jtrans: Jtrans, runs: list[Path], arguments: list[str], message: str
) -> None:
    for name, gold in (("gold", "9-0\n" + "\n" * 11), ("blank", "\n" * 12), ("short", "0-0\n")):
        Path(name).write_text(gold, encoding="utf-8")
    result = jtrans("analyze", *[runs[0] if a == "ONE" else a for a in arguments])
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not (runs[0] / "reports").exists()


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize("line", ["a d@@ o@@ g", "\u2581a \u2581dog", "a dog&apos;s &apos;"])
def test_pieces_and_escapes_in_a_file_are_refused_unless_told(
    jtrans: Jtrans, runs: list[Path], line: str
) -> None:
    Path("other.en").write_text(f"{line}\n" * 12, encoding="utf-8")
    options = ("analyze", "length", runs[0], "--hyp", "other.en")
    result = jtrans(*options)
    assert (result.code, result.out) == (2, "")
    assert "other.en:1" in result.err
    assert "--as-is" in result.err
    assert jtrans(*options, "--as-is").code == 0


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_file_whose_name_is_not_utf8_is_shown_by_an_escaped_name(
    jtrans: Jtrans, runs: list[Path]
) -> None:
    file = Path(os.fsdecode(b"caf\xe9.en"))
    file.write_text("a dog\n" * 12, encoding="utf-8")
    result = jtrans("analyze", "report", runs[0], "--hyp", file)
    assert result.code == 0, result.err
    assert r"caf\xe9.en" in (runs[0] / "reports/report.html").read_text("utf-8")


def test_another_number_of_lines_in_a_file_is_refused(jtrans: Jtrans, runs: list[Path]) -> None:
    Path("other.en").write_text("a dog\n" * 12 + "\n", encoding="utf-8")
    result = jtrans("analyze", "length", runs[0], "--hyp", "other.en")
    assert result.code == 2
    assert "13 translations, but test has 12 lines (other.en)" in result.err
    assert "delete" not in result.err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(
    jtrans: Jtrans, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    result = jtrans("analyze", "length", runs[0])
    assert (result.code, result.out) == (2, "")
    assert "hint: --out DIR" in result.err
    assert not (runs[0] / "translations").exists()
