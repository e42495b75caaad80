"""A prepared corpus with BPE, runs with random weights on it, and the study of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jtrans.analysis.study.study import Study, load_subjects
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run

from ..decoding.conftest import MakeRun, make_run

__all__ = ["make_run"]

NOUNS = {"Hund": "Dog", "Katze": "Cat", "Vogel": "Bird", "Fisch": "Fish", "Maus": "Mouse"}
JOINT = {"system": "reformer-base", "layers": 1, "width": 8, "ffn_width": 16, "heads": 2}


def make_corpus(
    folder: Path, *, seed: int = 1, test: int = 12, bpe: str = "joint", test_seed: int = 2
) -> PreparedCorpus:
    """Prepare made-up sentences of one to six words."""
    splits = {}
    for name, number, part_seed in (
        ("train", 40, seed),
        ("valid", 4, 8),
        ("test", test, test_seed),
    ):
        draw = random.Random(part_seed)
        source = [" ".join(draw.choices(list(NOUNS), k=1 + i % 6)) for i in range(number)]
        target = [" ".join(NOUNS[word] for word in line.split()) for line in source]
        splits[name] = ParallelText(source, target)
    options = PrepareOptions(
        source_segment="whitespace",
        target_segment="whitespace",
        bpe=bpe,  # type: ignore[arg-type]
        bpe_merges=8,
        deduplicate=False,
        drop_leaked=False,
    )
    prepare(Corpus("nouns", ("de", "en"), splits), folder, options=options, workers=1)
    return PreparedCorpus.open(folder)


@pytest.fixture
def corpus(tmp_path: Path) -> PreparedCorpus:
    """Twelve test sentences, the pieces of the words shorter than words."""
    return make_corpus(tmp_path / "data")


MakeStudy = Callable[..., Study]


@pytest.fixture
def run_on(make_run: MakeRun) -> Callable[..., Run]:
    """Return a function that makes a run trained on a corpus."""

    def make(corpus: PreparedCorpus, name: str = "run", **more: Any) -> Run:
        facts = {"data": str(corpus.folder), "train": corpus.info["splits"]["train"]}
        return Run.open(make_run(name, pipeline=corpus.pipeline, **facts, **more))

    return make


@pytest.fixture
def study(corpus: PreparedCorpus, run_on: Callable[..., Run]) -> Study:
    """Two systems with random weights."""
    runs = [
        run_on(corpus, "one", weights_seed=1),
        run_on(corpus, "two", weights_seed=2, config={"model": JOINT}),
    ]
    return load_subjects(runs, "test", device="cpu", precision="fp32")
