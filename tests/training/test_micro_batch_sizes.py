"""Sizes of micro-batches follow the device where they are not given, and stay those of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jtrans.config import load_config
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training.events import Start, TrainingEvents
from jtrans.training.session import train
from jtrans.training.updates import with_sizes

CPU, GPU = (8_000, 200), (131_072, 20_000)


class Starts(TrainingEvents):
    def __init__(self) -> None:
        self.sizes: list[str] = []

    def start(self, start: Start) -> None:
        self.sizes.append(start.micro_batch)


def sizes(config: Any) -> tuple[int, int]:
    return config.training.micro_batch_joint, config.training.micro_batch_overhead


@pytest.mark.parametrize(("device", "expected"), [("cpu", CPU), ("cuda", GPU), ("mps", GPU)])
def test_open_sizes_are_those_of_the_device(
    make_config: Any, device: str, expected: tuple[int, int]
) -> None:
    assert sizes(with_sizes(make_config("reformer-fast"), device)) == expected


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_given_sizes_stay(make_config: Any, device: str) -> None:
    config = make_config("reformer-fast", micro_batch_joint=300, micro_batch_overhead=7)
    assert sizes(with_sizes(config, device)) == (300, 7)
    half = with_sizes(make_config("reformer-fast", micro_batch_joint=300), device)
    assert sizes(half) == (300, CPU[1] if device == "cpu" else GPU[1])


def test_a_run_keeps_its_sizes_on_another_device(make_config: Any) -> None:
    run = with_sizes(make_config("reformer-fast"), "cuda")
    assert sizes(with_sizes(make_config("reformer-fast"), "cpu", run)) == GPU


@pytest.mark.parametrize("recipe", ["iwslt14-de-en/reformer-fast", "nist-zh-en/reformer-base"])
def test_recipes_of_papers_leave_sizes_to_the_device(recipe: str) -> None:
    config = load_config(recipe, system_configs())
    assert sizes(with_sizes(config, "cpu")) == CPU
    assert sizes(with_sizes(config, "cuda")) == GPU


def test_a_run_writes_shows_and_keeps_what_it_resolved(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    run, starts = tmp_path / "run", Starts()
    config = make_config("reformer-base", max_updates=2)
    train(config, data=corpus.folder, run=run, device="cpu", events=starts)
    assert sizes(Run.open(run).config(system_configs())) == CPU
    assert starts.sizes[0].endswith("8,000 joint positions")
    text = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(text.replace("= 8000", "= 400"), encoding="utf-8")
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    del info["settings"]  # as of an earlier version
    (run / "run.json").write_text(json.dumps(info), encoding="utf-8")
    longer = make_config("reformer-base", max_updates=3)
    train(longer, data=corpus.folder, run=run, device="cpu", events=starts)
    assert sizes(Run.open(run).config(system_configs())) == (400, 200)
    assert starts.sizes[1].endswith("400 joint positions")
