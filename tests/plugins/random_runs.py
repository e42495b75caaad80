"""Runs with random weights: what translates, scores and analyses without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from jtrans.config import build_config
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.options import DecodingChoices
from jtrans.models.zoo import build_model, system_configs
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import Vocabulary

ON_CPU = DecodingChoices(device="cpu", precision="fp32")
WORDS = ["ein", "mann", "hund", "liest", "rennt", "schnell", "."]
TARGET_WORDS = ["a", "man", "dog", "reads", "runs", "fast", "."]
TRANSFORMER = {"system": "transformer", "encoder_layers": 1, "decoder_layers": 1}
TRANSFORMER |= {"width": 8, "ffn_width": 16, "heads": 2}
JOINT = {"system": "reformer-base", "layers": 1, "width": 8, "ffn_width": 16, "heads": 2}


class MakeRun(Protocol):
    """Writes a run with random weights, which `edit` may change, and returns its folder."""

    def __call__(
        self,
        name: str = "run",
        *,
        weights_seed: int = 1,
        config: dict[str, Any] | None = None,
        pipeline: TextPipeline | None = None,
        edit: Callable[[Any], None] = lambda model: None,
        **facts: Any,
    ) -> Path: ...


class RunOn(Protocol):
    """Makes a run with random weights that says it was trained on a corpus."""

    def __call__(self, corpus: PreparedCorpus, name: str = "run", **more: Any) -> Run: ...


def write_run(
    folder: Path,
    *,
    weights_seed: int = 1,
    config: dict[str, Any] | None = None,
    pipeline: TextPipeline | None = None,
    edit: Callable[[Any], None] = lambda model: None,
    **facts: Any,
) -> Path:
    """Write a run with random weights, which `edit` may change; `facts` go to its run.json."""
    import safetensors.torch
    import torch

    values = {"model": TRANSFORMER, "decoding": {"max_length": "S+3"}, **(config or {})}
    resolved = build_config(values, system_configs(), where="test")
    if pipeline is None:
        source, target = (
            Vocabulary.build(dict.fromkeys(words, 9)) for words in (WORDS, TARGET_WORDS)
        )
        pipeline = TextPipeline.whitespace("de", "en", source, target)
    run = Run.create(folder, resolved, pipeline, {"parameters": 1234, **facts})
    torch.manual_seed(weights_seed)
    weights = build_model(resolved.model, *pipeline.vocabulary_sizes)
    edit(weights)
    with run.new_checkpoint(10) as checkpoint:
        safetensors.torch.save_model(weights, str(checkpoint / "model.safetensors"))
    run.set_pointers(last="step-00000010", best="step-00000010")
    return run.folder


def facts_of(corpus: PreparedCorpus) -> dict[str, Any]:
    """Return what the run.json of a run says that was trained on a corpus."""
    return {"data": str(corpus.folder), "train": corpus.info["splits"]["train"]}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make runs in the folder of the test."""

    def make(name: str = "run", **more: Any) -> Path:
        return write_run(tmp_path / name, **more)

    return make


@pytest.fixture
def run_on(make_run: MakeRun) -> RunOn:
    """Make runs on prepared corpora."""

    def make(corpus: PreparedCorpus, name: str = "run", **more: Any) -> Run:
        return Run.open(make_run(name, pipeline=corpus.pipeline, **facts_of(corpus), **more))

    return make


@pytest.fixture
def loaded_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs whose models are loaded in this test."""
    from jtrans.decoding.translator import load_model  # it loads torch

    names: list[str] = []

    def noted(run: Run, *arguments: Any) -> Any:
        names.append(run.name)
        return load_model(run, *arguments)

    monkeypatch.setattr("jtrans.decoding.translator.load_model", noted)
    return names
