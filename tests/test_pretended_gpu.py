"""What jtrans does on a GPU only, on a pretended one (`plugins/pretended_gpu`)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from plugins.command_line import Jtrans, environment
from plugins.pretended_gpu import run as pretended_gpu
from plugins.random_runs import JOINT, WORDS, MakeRun

from jtrans.data.prepared import PreparedCorpus

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or shutil.which("g++") is None, reason="needs g++ on Linux"
    ),
    pytest.mark.skipif(
        tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11),
        reason="older versions of torch ask the GPU itself more questions",
    ),
    pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there"),
]


class OnGpu(Protocol):
    """Runs a module on the pretended GPU; returns what it printed and what happened there."""

    def __call__(self, module: str, *arguments: object) -> tuple[str, dict[str, int]]: ...


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_gpu.build(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def on_gpu(library: Path, tmp_path: Path) -> OnGpu:
    def run(module: str, *arguments: object) -> tuple[str, dict[str, int]]:
        report = tmp_path / "report.json"
        done = subprocess.run(
            [sys.executable, pretended_gpu.HERE, report, module, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment(PRETENDED_GPU=str(library)),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, json.loads(report.read_text(encoding="utf-8"))

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", [None, JOINT])
def test_captured_steps_translate_as_the_cpu_does(
    model: dict[str, Any] | None, on_gpu: OnGpu, jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run(config={"model": model} if model else None)
    text = tmp_path / "text"
    lines = [" ".join(WORDS[first : first + 4]) for first in range(4)]
    text.write_text("".join(f"{line}\n" for line in lines * 2), encoding="utf-8")
    command = ["translate", run, "-i", text, "--format", "jsonl", "--batch-tokens", 5]
    command += ["--precision", "fp32"]
    out, happened = on_gpu("jtrans", *command, "--device", "cuda")
    assert happened["captures"] >= 1 and happened["replays"] > happened["captures"]
    expected = jtrans(*command, "--device", "cpu").out
    for line, of_cpu in zip(out.splitlines(), expected.splitlines(), strict=True):
        ours, theirs = (json.loads(text)["translations"][0] for text in (line, of_cpu))
        assert ours["tokens"] == theirs["tokens"]
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-5)


@pytest.mark.thorough
def test_updates_are_those_of_the_cpu_and_hardly_wait(
    on_gpu: OnGpu, jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    settings = {"compile": "off", "batch_tokens": 60, "validate_sentences": 0}
    settings |= {"micro_batch_tokens": 60, "micro_batch_overhead": 200}
    sizes = {"width": 16, "ffn_width": 32, "heads": 2, "dropout": 0, "attention_dropout": 0}
    more = [f"training.{key}={value}" for key, value in settings.items()]
    more += [f"model.{key}={value}" for key, value in sizes.items()]
    command = ["train", "demo/transformer", "--data", corpus.folder, "--precision", "fp32"]
    command += [part for setting in more for part in ("--set", setting)]

    def train(device: str, updates: int) -> tuple[float, int, int]:
        run = tmp_path / f"{device}-{updates}"
        limits = ["--set", f"training.max_updates={updates}", "--run", run, "--device", device]
        if device == "cpu":
            assert jtrans(*command, *limits).code == 0
            happened = {"waits": 0, "replays": 0}
        else:
            happened = on_gpu("jtrans", *command, *limits)[1]
        logged = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
        losses = [event["valid_loss"] for event in map(json.loads, logged) if "valid_loss" in event]
        return losses[-1], happened["waits"], happened["replays"]

    (loss, waits, _), (expected, *_) = train("cuda", 6), train("cpu", 6)
    assert loss == pytest.approx(expected, abs=1e-5)
    loss, waits_of_more, replays = train("cuda", 12)
    assert loss == pytest.approx(train("cpu", 12)[0], abs=1e-5)
    assert waits_of_more == waits  # none of an update's
    assert replays >= 1  # sizes that come again are captured


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ["train", "demo/transformer", "--dry-run"],
        ["bench", "train", "--quick", "--recipe", "demo/transformer"],
    ],
)
def test_rates_are_those_of_captured_updates(
    command: list[str], on_gpu: OnGpu, corpus: PreparedCorpus
) -> None:
    settings = ["--set", "training.compile=off", "--set", "training.batch_tokens=100"]
    data = ["--data", corpus.folder, *settings]
    sizes = ["width=16", "ffn_width=32", "heads=2", "encoder_layers=1", "decoder_layers=1"]
    more = [part for size in sizes for part in ("--set", f"model.{size}")]
    _, happened = on_gpu("jtrans", *command, *data, *more, "--device", "cuda")
    # without warm-ups most of what is timed would be the first pass of a size, or its capture
    assert happened["captures"] >= 1 and happened["replays"] >= 2 * happened["captures"]


@pytest.mark.thorough
def test_a_step_of_the_search_launches_few_operations(on_gpu: OnGpu) -> None:
    out, _ = on_gpu("plugins.pretended_gpu.operations", "fp32")
    most = {"transformer": 60, "reformer-base": 93, "reformer-fast": 73}
    assert len(out.splitlines()) == len(most)
    for line in out.splitlines():
        counted = json.loads(line)
        assert counted["step"] <= most[counted["system"].split()[0]], line
        assert counted["with choice"] <= counted["step"] + 62, line
        assert counted["beside"] <= 7, line


@pytest.mark.slow
@pytest.mark.parametrize("part", ["devices", "dropout", "captured"])
def test_parts_of_the_check_of_gpus(part: str, on_gpu: OnGpu) -> None:
    out, _ = on_gpu("scripts.gpu.check", "--tiny", "--only", part)
    assert "correctness" in out and "wrong: nothing" in out
