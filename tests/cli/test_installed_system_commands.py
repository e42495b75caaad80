"""Every command on a system of another distribution, that of docs/adding-a-system.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.installed_systems import BringSystem, documented_system

from jtrans.data.prepared import PreparedCorpus

RECIPE = """
[model]
system = "mine"
width = 8

[training]
batch_tokens = 60
max_updates = 4
validate_every = 2
validate_sentences = 4

[decoding]
beam = 2
max_length = "S+2"
"""


@pytest.mark.thorough
@pytest.mark.usefixtures("placeholder_pictures")
def test_every_command_works_on_an_installed_system(
    jtrans: Jtrans, bring_system: BringSystem, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    bring_system()
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    train = ("train", "mine.toml", "--data", corpus.folder)

    def done(*arguments: object, stdin: bytes | None = None) -> str:
        result = jtrans(*arguments, stdin=stdin)
        assert result.code == 0, (arguments, result.err)
        return result.out

    assert "mine" in done("models")
    assert "model.width" in done("models", "mine")
    assert done("recipes", "mine.toml") == RECIPE
    assert jtrans(*train, "--set", "model.widht=3").err.count("did you mean model.width?") == 1

    estimate = json.loads(done(*train, "--dry-run", "--json"))
    assert estimate["system"] == "mine" and estimate["positions_per_second"] is None
    bench = ("--recipe", "mine.toml", "--data", corpus.folder, "--quick", "--json")
    measured = json.loads(done("bench", "train", *bench))
    assert 0 < measured["product_share"] < 1

    trained = json.loads(done(*train, "--run", "one", "--json"))
    assert trained["reason"] == "max_updates" and trained["update"] == 4
    continued = json.loads(
        done(*train, "--run", "one", "--set", "training.max_updates=6", "--json")
    )
    assert continued["update"] == 6
    done(*train, "--run", "two", "--set", "training.seed=7", "--set", "model.width=12")
    done("average", "one", "--last", "2")

    line = corpus.raw_lines("test", "source")[0]
    translate = ("translate", "one", "--checkpoint", "average", "--beam", "1")
    assert len(done(*translate, stdin=f"{line}\n".encode()).splitlines()) == 1
    ensemble = done("translate", "one", "one", stdin=f"{line}\n\n".encode())
    assert ensemble.splitlines()[1:] == [""]
    scores = json.loads(done("score", "one", "two", "--json"))
    assert len(scores["systems"]) == 2
    sides = corpus.raw_lines("test", "source"), corpus.raw_lines("test", "target")
    for name, lines in zip(("forced.de", "forced.en"), sides, strict=True):
        (tmp_path / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    forced = ("score", "one", "--force", "forced.en", "--src", "forced.de", "--json")
    assert json.loads(done(*forced))

    for figure in ("length", "position", "frequency"):
        assert json.loads(done("analyze", figure, "one", "two", "--json"))
    assert "decoder.0.cross" in done("analyze", "alignment", "one", "--json")
    pairs = json.loads(done("analyze", "attention", "one", "--sentence", line, "--json"))
    [view] = pairs["sentences"][0]["views"]
    assert view["kind"] == "decoder.cross"
    assert json.loads(done("analyze", "compare", "one", "two", "--json"))
    report = json.loads(done("analyze", "report", "one", "two", "--out", "report", "--json"))
    assert report
    assert "decoder.cross" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "my-systems 1.0" in done("info")
    pytest.importorskip("onnxruntime")
    refused = jtrans("export", "one", "--to", "onnx", "--out", "graphs")
    assert refused.code == 2 and not (tmp_path / "graphs").exists()
    assert "mine cannot be exported to ONNX: its recurrent layers" in refused.err


def test_a_broken_system_stops_only_what_uses_it(
    jtrans: Jtrans, bring_system: BringSystem, tmp_path: Path
) -> None:
    bring_system("import nowhere")
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    refused = jtrans("train", "mine.toml", "--data", "nowhere")
    assert refused.code == 2
    assert "mine of my-systems 1.0 is broken" in refused.err
    assert jtrans("recipes", "demo/transformer").code == 0
    assert "no prepared corpus" in jtrans("train", "demo/transformer", "--data", "nowhere").err


def test_a_default_that_its_type_refuses_is_named_where_systems_are_listed(
    jtrans: Jtrans, bring_system: BringSystem
) -> None:
    bring_system(documented_system(("dropout: Rate = 0.1", "dropout: Rate = 1.5")))
    refused = jtrans("models", "mine")
    assert refused.code == 2
    assert "model.dropout: input should be less than 1 (got 1.5) (the default con" in refused.err
    assert "this is the default of mine, which its own type refuses" in refused.err


@pytest.mark.parametrize("command", [["train", "demo/transformer"], ["models", "transformer"]])
def test_a_name_that_is_taken_is_refused_where_it_is_used(
    command: list[str], jtrans: Jtrans, bring_system: BringSystem
) -> None:
    bring_system(point="transformer = my_systems:Mine")
    refused = jtrans(*command)
    assert refused.code == 2
    assert "transformer: jtrans, my-systems 1.0" in refused.err


CALL = "return self.output(hidden)"
FAILING = documented_system().replace(
    CALL, "return self.output([hidden] if self.training else hidden)"
)


def test_a_failure_beside_an_installed_system_names_it_and_its_line(
    jtrans: Jtrans, bring_system: BringSystem, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    bring_system(FAILING)
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    failed = jtrans("train", "mine.toml", "--data", corpus.folder, "--run", "one")
    assert failed.code == 1
    line = FAILING[: FAILING.index("return self.output(")].count("\n") + 1
    assert "TypeError: linear()" in failed.err and f"my_systems.py:{line})" in failed.err
    assert "hint: the fault may be in mine of my-systems 1.0: docs/adding" in failed.err


def test_what_an_installed_system_prints_is_no_result(
    jtrans: Jtrans, bring_system: BringSystem, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    quiet = documented_system()
    bodies = [
        line
        for line in quiet.splitlines()
        if "Memory(self.encoder" in line or "self.read(token" in line
    ]
    source = quiet.replace("import torch\n", "import torch\n\nprint('imported')\n", 1)
    for body in bodies:
        source = source.replace(body, f"        print('computed')\n{body}")
    bring_system(source)
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    trained = jtrans("train", "mine.toml", "--data", corpus.folder, "--run", "one", "--json")
    assert json.loads(trained.out)["update"] == 4
    assert "imported\n" in trained.err and "computed\n" in trained.err
    translated = jtrans("translate", "one", stdin=b"hund\n\nhund\n")
    assert translated.out.count("\n") == 3 and "computed" not in translated.out
    assert "computed" in translated.err
    assert json.loads(jtrans("score", "one", "--json").out)
