"""Runs of every system as ONNX graphs."""

from __future__ import annotations

import errno
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugins.random_runs import TARGET_WORDS, MakeRun

from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator, load_model
from jtrans.errors import ConfigError, WorkError
from jtrans.exchange.check import check_export
from jtrans.exchange.graphs.export import check_traceable, compare, export_to_onnx
from jtrans.exchange.graphs.sessions import Graphs
from jtrans.models.zoo import SYSTEMS, build_model, system_configs
from jtrans.progress import Silent
from jtrans.runs import Run
from jtrans.text.bpe import Bpe
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import EOS, Vocabulary

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

SIZES = {"width": 8, "ffn_width": 12, "heads": 2}
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
TRACED: dict[str, dict[str, Any]] = {
    "transformer": SIZES | ONE_LAYER,
    "dlcl": SIZES | ONE_LAYER,
    "transformer-pp": SIZES | ONE_LAYER | {"ner_tags": 0, "kernels": [3]},
    "reformer-base": SIZES | {"layers": 1, "side_vectors": True},
    "reformer-fast": SIZES | {"layers": 1, "prenet_layers": 1},
    "pervasive": {"width": 8, "ffn_width": 12, "layers": 1, "kernel": 3, "channels": 8},
    "convs2s": {
        "width": 8,
        "output_width": 8,
        "encoder_layers": "1 x (8, 3)",
        "decoder_layers": "1 x (8, 3)",
        "positions": 64,
    },
}
RECURRENT = {
    "rnmt-plus": {"width": 8, "heads": 2, "encoder_layers": 3, "decoder_layers": 3},
    "hybrid": {"width": 8, "ffn_width": 12, "heads": 2, "rnmt_heads": 2},
}
LINES = ["ein mann liest .", "", "ein hund rennt schnell . mann", "hund"]


def make(make_run: MakeRun, system: str, sizes: dict[str, Any]) -> Run:
    config = {"model": {"system": system, **sizes}, "decoding": {"max_length": "S+3"}}
    return Run.open(make_run(system, config=config))


# a buffer of two rows is full after the second step
VARIANTS = {
    "transformer-pp": SIZES | ONE_LAYER | {"ner_tags": 0, "kernels": [2], "dilation": 1},
    "pervasive": TRACED["pervasive"] | {"positions": False},
}
CASES = [*TRACED.items(), *VARIANTS.items()]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("system", "sizes"), CASES)
def test_graphs_translate_as_the_model(
    make_run: MakeRun, system: str, sizes: dict[str, Any]
) -> None:
    run = make(make_run, system, sizes)
    export = export_to_onnx(run, run.folder / "out")  # compares other sizes than it traced
    check = check_export(run, export, DecodingChoices(), LINES, [LINES], Silent())
    assert check.comparison.same == 1.0
    assert check.difference is not None and check.difference < 1e-4


def test_every_system_is_traced_or_refused() -> None:
    assert TRACED.keys() | RECURRENT.keys() == SYSTEMS.keys()


@pytest.mark.parametrize("system", RECURRENT)
def test_recurrent_systems_are_refused(make_run: MakeRun, system: str) -> None:
    run = make(make_run, system, RECURRENT[system])
    with pytest.raises(ConfigError, match=f"{system} cannot be exported to ONNX: its recurrent"):
        export_to_onnx(run, run.folder / "out")
    assert not (run.folder / "out").exists()


def test_layers_of_torch_that_loop_are_refused() -> None:
    model = build_model(
        system_configs()["transformer"](**TRACED["transformer"], system="transformer"), 20, 20
    )
    check_traceable(model)
    model.add_module("extra", torch.nn.GRU(2, 2))
    with pytest.raises(ConfigError, match="transformer cannot be exported to ONNX: its recurrent"):
        check_traceable(model)


def test_graphs_of_another_model_are_noticed(make_run: MakeRun) -> None:
    run = make(make_run, "pervasive", TRACED["pervasive"])
    export = export_to_onnx(run, run.folder / "out")
    model = load_model(run)
    model.output.bias.data[7] += 0.01  # type: ignore[union-attr, index, operator]
    with pytest.raises(ConfigError, match="compute something else"):
        compare(model, Graphs.load(export.folder, export.facts), 16)


def test_a_graph_whose_steps_give_no_numbers_is_noticed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(make_run, "pervasive", TRACED["pervasive"])
    export = export_to_onnx(run, run.folder / "out")
    step = Graphs.step

    def without_numbers(self: Graphs, *arguments: Any) -> Any:
        log_probs, state = step(self, *arguments)
        return np.full_like(log_probs, np.nan), state

    monkeypatch.setattr(Graphs, "step", without_numbers)
    with pytest.raises(ConfigError, match="compute something else"):
        compare(load_model(run), Graphs.load(export.folder, export.facts), 16)


def test_a_model_that_cannot_be_traced_is_refused_in_one_line(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(make_run, "transformer", TRACED["transformer"])
    monkeypatch.setattr(
        "jtrans.models.transformer.TransformerDecoding.project",
        lambda self, hidden: torch.linalg.pinv(self.output(hidden)).mT,
    )
    with pytest.raises(ConfigError, match="transformer cannot be exported to ONNX") as refused:
        export_to_onnx(run, run.folder / "out")
    assert "\n" not in refused.value.message
    assert capsys.readouterr().out == ""
    assert not (run.folder / "out").exists()


def test_a_full_disk_is_no_fault_of_the_model(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = make(make_run, "transformer", TRACED["transformer"])
    monkeypatch.setattr(torch.onnx, "export", fill)
    with pytest.raises(WorkError, match="the disk is full"):
        export_to_onnx(run, run.folder / "out")


def test_hypotheses_are_selected_along_their_axis(make_run: MakeRun) -> None:
    run = make(make_run, "pervasive", TRACED["pervasive"])
    export = export_to_onnx(run, run.folder / "out")
    graphs = Graphs.load(export.folder, export.facts)
    source = np.array([[4, 5, EOS], [6, EOS, 0]])
    first, state = graphs.start(source)
    tokens = np.array([7, 4, 8])
    rows = np.array([1, 0, 1])
    selected, _ = graphs.step(tokens, 1, graphs.select(state, rows))
    for row, token, log_probs in zip(rows, tokens, selected, strict=True):
        _, alone = graphs.start(source[row : row + 1])
        expected, _ = graphs.step(np.array([token]), 1, alone)
        np.testing.assert_allclose(log_probs, expected[0], atol=1e-5)
    assert first.shape == (2, len(run.pipeline.target.vocabulary))


def feed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let the example read lines from its standard input."""
    stream = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="latin-1"))
    monkeypatch.setattr(sys, "argv", ["translate_onnx.py"])


def test_the_example_needs_nothing_of_ours(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(make_run, "convs2s", TRACED["convs2s"])
    export = export_to_onnx(run, run.folder / "out")
    example = export.folder / "translate_onnx.py"
    assert "jtrans" not in Path(example).read_text(encoding="utf-8")
    feed(monkeypatch, *LINES)
    runpy.run_path(str(example), run_name="__main__")
    given = capsys.readouterr().out.splitlines()
    choices = DecodingChoices(device="cpu", search={"beam": 1})
    assert given == Translator.load([run], choices).translate(LINES)
    monkeypatch.setattr(sys, "argv", ["translate_onnx.py", "--help"])
    with pytest.raises(SystemExit, match="< in > out"):
        runpy.run_path(str(example), run_name="__main__")


@pytest.mark.parametrize("codes", ["#version: 0.2\nd o\n", None])
def test_the_example_joins_pieces_as_we_do(
    codes: str | None,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pieces = Vocabulary.build(dict.fromkeys(["do@@", "ca@@", "ru@@"], 9))
    target = TextSide("en", segmenter="whitespace", codes=codes, vocabulary=pieces)
    source = TextSide(
        "de",
        segmenter="whitespace",
        vocabulary=Vocabulary.build(dict.fromkeys(" ".join(LINES).split(), 9)),
    )
    config = {"model": {"system": "convs2s", **TRACED["convs2s"]}}
    run = Run.open(make_run("run", config=config, pipeline=TextPipeline(source, target)))
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    feed(monkeypatch, *LINES)
    runpy.run_path(str(example), run_name="__main__")
    choices = DecodingChoices(device="cpu", search={"beam": 1})
    expected = Translator.load([run], choices).translate(LINES)
    assert any(expected) and any("@@" in line for line in expected) == (codes is None)
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.sample(4)
@pytest.mark.parametrize("word", ["@@", "a@@", "ab@@@@", "ab", "c@", "@@a"])
@pytest.mark.parametrize("codes", ["#version: 0.2\na b\n@ @</w>\n", "a b\n@ @</w>\n"])
def test_the_example_splits_words_that_look_like_pieces_as_we_do(
    word: str, codes: str, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = Vocabulary.build(dict.fromkeys(" ".join(LINES).split(), 9))
    source = TextSide("de", segmenter="whitespace", codes=codes, vocabulary=words)
    target = TextSide("en", segmenter="whitespace", vocabulary=words)
    config = {"model": {"system": "convs2s", **TRACED["convs2s"]}}
    run = Run.open(make_run("run", config=config, pipeline=TextPipeline(source, target)))
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    feed(monkeypatch)
    program = runpy.run_path(str(example), run_name="__main__")
    assert tuple(program["split"](word)) == tuple(Bpe(codes).pieces([word]))


@pytest.mark.parametrize("limit", ["S+1", "1.2*S+1", "3", "0.2*S"])
def test_the_example_keeps_the_length_limit_of_the_run(
    limit: str,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = {
        "model": {"system": "convs2s", **TRACED["convs2s"]},
        "decoding": {"max_length": limit},
    }
    run = Run.open(make_run("run", config=config))
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    feed(monkeypatch, *LINES)
    runpy.run_path(str(example), run_name="__main__")
    choices = DecodingChoices(device="cpu", search={"beam": 1})
    expected = Translator.load([run], choices).translate(LINES)
    assert capsys.readouterr().out.splitlines() == expected


def test_the_example_reads_words_as_the_pipeline_does(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TextSide(
        "de",
        segmenter="whitespace",
        lowercase=True,
        codes="#version: 0.2\nh u\nhu n\nhun d</w>\n",
        vocabulary=Vocabulary.build(dict.fromkeys(["hu@@", "n@@", "d", "e@@"], 9)),
        spell=True,
    )
    target = TextSide(
        "en", segmenter="whitespace", vocabulary=Vocabulary.build(dict.fromkeys(TARGET_WORDS, 9))
    )
    config = {"model": {"system": "convs2s", **TRACED["convs2s"]}}
    run = Run.open(make_run("run", config=config, pipeline=TextPipeline(source, target)))
    assert run.pipeline.source.pieces("Hund") == ["hu@@", "n@@", "d"]
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    feed(monkeypatch, "Hund", "HUND Hundehund")
    runpy.run_path(str(example), run_name="__main__")
    choices = DecodingChoices(device="cpu", search={"beam": 1})
    given = capsys.readouterr().out.splitlines()
    assert given == Translator.load([run], choices).translate(["Hund", "HUND Hundehund"])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "codes", [None, "#version: 0.2\na b</w>\n", "#version: 0.1\na b\nab </w>\n", "a b\nab </w>\n"]
)
def test_the_example_knows_old_codes_and_no_special_words(
    codes: str | None,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen_words = ["ab", "a@@", "b", "a", "c", "b@@", "madeupwords", "madeupword0001"]
    known = Vocabulary.build(dict.fromkeys(seen_words, 9))
    source = TextSide("de", segmenter="whitespace", codes=codes, vocabulary=known)
    target = TextSide(
        "en", segmenter="whitespace", vocabulary=Vocabulary.build(dict.fromkeys(TARGET_WORDS, 9))
    )
    config = {"model": {"system": "convs2s", **TRACED["convs2s"]}}
    run = Run.open(make_run("run", config=config, pipeline=TextPipeline(source, target)))
    lines = ["ab", "abc", "c a", "ab </s> b", "<pad> a madeupword0000"]
    lines += [] if codes else ["madeupwords madeupword0001"]  # words of a text
    assert run.pipeline.source.pieces("ab") == ["ab"]
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    seen: list[list[int]] = []
    session = onnxruntime.InferenceSession

    class Watched(session):  # type: ignore[misc, valid-type]
        def run(self, names: Any, inputs: dict[str, Any]) -> Any:
            if "source" in inputs:
                seen.append(inputs["source"][0].tolist())
            return super().run(names, inputs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Watched)
    feed(monkeypatch, *lines)
    runpy.run_path(str(example), run_name="__main__")
    assert seen == [source.encode(line) for line in lines]


def test_the_example_ends_quietly_when_its_reader_has_quit(make_run: MakeRun) -> None:
    run = make(make_run, "convs2s", TRACED["convs2s"])
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, str(example)]
    outcome = subprocess.run(command, input=b"hund\n", stdout=writer, stderr=-1, check=False)
    os.close(writer)
    assert (outcome.returncode, outcome.stderr) == (0, b"")


@pytest.mark.sample(1)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_the_example_reads_and_writes_utf8_whatever_the_encoding_of_the_system(
    encoding: str, make_run: MakeRun
) -> None:
    words = Vocabulary.build({f"ö{number}": 9 for number in range(60)})
    sides = [TextSide(name, segmenter="whitespace", vocabulary=words) for name in ("de", "sv")]
    config = {"model": {"system": "convs2s", **TRACED["convs2s"]}}
    run = Run.open(make_run("run", config=config, pipeline=TextPipeline(*sides)))
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}
    outcome = subprocess.run(
        [sys.executable, str(example)],
        input=b"\xef\xbb\xbf" + "ö1 ö2\nö3\n".encode() + b"\xf61\n",
        capture_output=True,
        check=False,
        env=environment,
    )
    choices = DecodingChoices(device="cpu", search={"beam": 1})
    expected = Translator.load([run], choices).translate(["ö1 ö2", "ö3"])
    assert all("ö" in line for line in expected)
    assert outcome.stdout.decode() == "".join(f"{line}\n" for line in expected)
    assert outcome.stderr.decode().strip() == "error: line 3 is not UTF-8 text"
    assert outcome.returncode == 1


def test_the_example_names_a_line_that_is_too_long(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(make_run, "convs2s", TRACED["convs2s"] | {"positions": 8})
    example = export_to_onnx(run, run.folder / "out").folder / "translate_onnx.py"
    feed(monkeypatch, "hund " * 7, "hund " * 8)
    with pytest.raises(SystemExit, match="line 2 has 9 tokens, more than 8"):
        runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.split()) <= 7


def test_the_example_refuses_graphs_that_were_changed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(make_run, "convs2s", TRACED["convs2s"])
    folder = export_to_onnx(run, run.folder / "out").folder
    content = bytearray((folder / "step.onnx").read_bytes())
    content[-5] ^= 1
    (folder / "step.onnx").write_bytes(content)
    feed(monkeypatch, "ein hund")
    with pytest.raises(SystemExit, match=r"step\.onnx is missing or was changed"):
        runpy.run_path(str(folder / "translate_onnx.py"), run_name="__main__")
    (folder / "start.onnx").unlink()
    with pytest.raises(SystemExit, match=r"start\.onnx is missing or was changed"):
        runpy.run_path(str(folder / "translate_onnx.py"), run_name="__main__")
