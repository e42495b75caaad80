"""`jtrans export`, and `jtrans translate` with exports."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import JOINT, MakeRun, RunOn

from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.comparison import Comparison
from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.translator import Translator
from jtrans.exchange.graphs.greedy import GreedyTranslator
from jtrans.text.vocabulary import EOS, PAD, SPARE

SOURCE = "ein mann liest .\n\nein hund rennt schnell .\nhund\n"
WITH_CTRANSLATE2 = ["--engine", "ctranslate2"]


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    def never_excluded(model: Any) -> None:
        model.output.bias.data[[PAD, SPARE]] = -30.0
        model.output.bias.data[EOS] = -1.0

    model = {"system": "transformer", "encoder_layers": 1, "decoder_layers": 1, "width": 8}
    model |= {"ffn_width": 16, "heads": 2, "output_bias": True}
    config = {"model": model, "decoding": {"max_length": "S+3"}}
    return make_run("run", config=config, edit=never_excluded)


@pytest.fixture
def exported(jtrans: Jtrans, run: Path, tmp_path: Path) -> Path:
    pytest.importorskip("ctranslate2")
    assert jtrans("export", run, "--to", "ctranslate2", "--out", "out").code == 0
    return tmp_path / "out"


def test_a_run_is_exported_and_translates_as_before(jtrans: Jtrans, run: Path) -> None:
    pytest.importorskip("ctranslate2")
    result = jtrans("export", run, "--to", "ctranslate2", "--json")
    assert result.code == 0
    facts = json.loads(result.out)
    assert facts["export"] == str(run / "exports" / "ctranslate2")
    assert (facts["checkpoint"], facts["selector"]) == ("step-00000010", "best")
    named = jtrans("export", f"{run}@10", "--to", "ctranslate2", "--json")
    assert json.loads(named.out)["selector"] == "10"
    options = ["--format", "jsonl", "--beam", "3", "--min-length", "0"]
    rows = []
    for engine in ([], WITH_CTRANSLATE2):
        result = jtrans("translate", run, *options, *engine, stdin=SOURCE.encode())
        assert result.code == 0
        rows.append([json.loads(line) for line in result.out.splitlines()])
    for ours, theirs in zip(*rows, strict=True):
        for translation, their in zip(
            ours.pop("translations"), theirs.pop("translations"), strict=True
        ):
            assert their.keys() == translation.keys()
            assert (their["text"], their["tokens"]) == (translation["text"], translation["tokens"])
            assert their["score"] == pytest.approx(translation["score"], abs=1e-4)
            assert their["token_log_probs"] == pytest.approx(
                translation["token_log_probs"], abs=1e-4
            )
        assert theirs == ours


def test_a_check_compares_with_the_run(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    run = run_on(corpus).folder
    result = jtrans("export", run, "--to", "ctranslate2", "--check", "--json")
    assert result.code == 0
    check = json.loads(result.out)["check"]
    assert check["lines"] == 12
    assert check["log_prob_difference"] < 1e-4
    assert [each["name"] for each in check["systems"]] == ["torch float32", "ctranslate2 float32"]
    gnmt = run_on(corpus, "gnmt", config={"decoding": {"length_penalty_form": "gnmt"}}).folder
    result = jtrans("export", gnmt, "--to", "ctranslate2", "--check", "--json")
    assert result.code == 0 and json.loads(result.out)["check"]["log_prob_difference"] < 1e-4
    monkeypatch.setattr(Comparison, "lost", 0.3)
    result = jtrans("export", run, "--to", "ctranslate2", "--check", "--split", "valid")
    assert result.code == 4
    assert "loses 0.30 BLEU on valid, more than 0.2" in result.err
    assert "sentences/s" in result.out


@pytest.mark.parametrize(
    ("program", "module", "translator"),
    [
        ("ctranslate2", "ctranslate2", CTranslate2Translator),
        ("onnx", "onnxruntime", GreedyTranslator),
    ],
)
def test_without_equal_translations_no_log_probabilities_are_compared(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    run_on: RunOn,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    module: str,
    translator: type[Translator],
) -> None:
    def differ(*arguments: Any) -> list[list[Translation]]:
        lists = translate(*arguments)
        return [[replace(each, text="x", tokens=["x"]) for each in best] for best in lists]

    pytest.importorskip(module)
    run = run_on(corpus).folder
    translate = translator.translate_nbest
    monkeypatch.setattr(translator, "translate_nbest", differ)
    result = jtrans("export", run, "--to", program, "--check")
    assert "not compared: no translation of the first 12 lines is the same" in result.out
    assert "at most" not in result.out
    result = jtrans("export", run, "--to", program, "--check", "--json")
    assert json.loads(result.out)["check"]["log_prob_difference"] is None


def test_an_export_translates_without_its_run(jtrans: Jtrans, run: Path, exported: Path) -> None:
    expected = jtrans("translate", run, *WITH_CTRANSLATE2, "--beam", "2", stdin=SOURCE.encode())
    assert expected.code == 2
    assert "no export to ctranslate2" in expected.err
    assert f"jtrans export {run} --to ctranslate2" in expected.err
    shutil.rmtree(run)
    result = jtrans("translate", exported, *WITH_CTRANSLATE2, stdin=SOURCE.encode())
    assert result.code == 0
    assert [bool(line) for line in result.out.split("\n")] == [True, False, True, True, False]


def test_workers_and_files_keep_the_order(jtrans: Jtrans, exported: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.de"
    source.write_text(SOURCE * 12, encoding="utf-8")
    plain = jtrans("translate", exported, *WITH_CTRANSLATE2, "-i", source)
    result = jtrans("translate", exported, *WITH_CTRANSLATE2, "-i", source, "-o", "out.en")
    assert (plain.code, result.code) == (0, 0)
    assert (tmp_path / "out.en").read_text(encoding="utf-8") == plain.out
    assert plain.out == plain.out[: len(plain.out) // 12] * 12


def test_graphs_are_exported_and_checked(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    run = run_on(corpus).folder
    result = jtrans("export", run, "--to", "onnx", "--out", "graphs", "--check", "--json")
    assert result.code == 0
    check = json.loads(result.out)["check"]
    assert check["same"] == 1.0
    assert check["log_prob_difference"] < 1e-4
    assert (tmp_path / "graphs" / "translate_onnx.py").is_file()
    words = shlex.quote(str(corpus.folder / "text" / "test.tok.de"))
    assert f"Next: python graphs/translate_onnx.py < {words}" in result.err
    result = jtrans("translate", "graphs", *WITH_CTRANSLATE2, stdin=SOURCE.encode())
    assert result.code == 2
    assert "the export is for onnx, not for ctranslate2" in result.err


def test_quantization_is_for_ctranslate2(jtrans: Jtrans, run: Path) -> None:
    result = jtrans("export", run, "--to", "onnx", "--quantize", "int8")
    assert result.code == 2
    assert "--quantize is for ctranslate2, not for onnx" in result.err
    result = jtrans("export", run, "--to", "onnx", "--check", "--beam", 8)
    assert result.code == 2
    assert "--beam is for ctranslate2" in result.err
    assert not (run / "exports").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "3"], "no effect without --check: --beam"),
        (["--split", "valid"], "no effect without --check: --split"),
        (["--check", "--beam", "0"], "beam 0 is less than 1"),
    ],
)
def test_choices_for_the_check_are_refused_before_anything_is_written(
    jtrans: Jtrans, run: Path, options: list[str], message: str
) -> None:
    result = jtrans("export", run, "--to", "ctranslate2", *options)
    assert result.code == 2
    assert message in result.err
    assert not (run / "exports").exists()


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.bin", flip_a_byte),
        ("model.bin", lambda path: path.write_bytes(path.read_bytes()[:-100])),
        ("model.bin", Path.unlink),
        ("pipeline.json", flip_a_byte),
        ("target_vocabulary.json", Path.unlink),
        ("config.toml", flip_a_byte),
        ("export.json", lambda path: path.write_text("[]")),
        ("export.json", Path.unlink),
        ("sha256.json", Path.unlink),
        ("sha256.json", lambda path: path.write_text("[1]")),
        ("sha256.json", lambda path: path.write_text("{}")),
    ],
)
def test_a_damaged_export_is_refused(
    jtrans: Jtrans, exported: Path, name: str, damage: Any
) -> None:
    damage(exported / name)
    result = jtrans("translate", exported, *WITH_CTRANSLATE2, stdin=SOURCE.encode())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 2
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stopping", "bound"], "does not support --stopping"),
        (["--length-penalty-form", "gnmt"], "does not support --length-penalty-form"),
        (["--sample", "--epsilon", "0.1"], "does not support --epsilon"),
        (["--checkpoint", "7"], "has only checkpoint step-00000010, not 7"),
        (["--engine", "marian"], "unknown value 'marian'"),
    ],
)
def test_what_it_cannot_do_is_refused(
    jtrans: Jtrans, exported: Path, options: list[str], said: str
) -> None:
    result = jtrans("translate", exported, *WITH_CTRANSLATE2, *options, stdin=SOURCE.encode())
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_an_export_is_no_run_and_no_ensemble(jtrans: Jtrans, run: Path, exported: Path) -> None:
    result = jtrans("translate", exported, stdin=SOURCE.encode())
    assert result.code == 2
    assert "hint: add --engine ctranslate2" in result.err
    result = jtrans("translate", exported, run, *WITH_CTRANSLATE2, stdin=SOURCE.encode())
    assert result.code == 2
    assert "not with an ensemble of 2" in result.err


def test_a_folder_named_like_a_graph_is_refused(jtrans: Jtrans, run: Path) -> None:
    result = jtrans("export", run, "--to", "onnx", "--out", "model.onnx")
    assert result.code == 2 and "--out model.onnx is named like a file" in result.err
    assert not Path("model.onnx").exists()


def test_another_system_is_refused(jtrans: Jtrans, make_run: MakeRun) -> None:
    pytest.importorskip("ctranslate2")
    run = make_run("joint", config={"model": JOINT})
    result = jtrans("export", run, "--to", "ctranslate2", "--out", "out")
    assert result.code == 2
    assert "CTranslate2 cannot compute reformer-base" in result.err
    assert "--to onnx" in result.err


@pytest.mark.parametrize(
    ("program", "module"), [("ctranslate2", "ctranslate2"), ("onnx", "onnxruntime")]
)
def test_a_missing_package_is_named_with_its_extra(
    jtrans: Jtrans, run: Path, monkeypatch: pytest.MonkeyPatch, program: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = jtrans("export", run, "--to", program)
    assert result.code == 2
    assert f"{module} is not installed" in result.err
    assert f"hint: pip install 'jtrans[{program}]'" in result.err
