"""A prepared corpus with BPE, runs with random weights on it, and the study of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from plugins.random_runs import JOINT, ON_CPU, RunOn, facts_of, write_run

from jtrans.analysis.report.content import gather
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.progress import Silent
from jtrans.runs import Run

RUNS: dict[str, dict[str, Any]] = {
    "one": {"weights_seed": 1},
    "two": {"weights_seed": 2, "config": {"model": JOINT}},
}


@pytest.fixture
def corpus(nouns: PreparedCorpus) -> PreparedCorpus:
    """Twelve test sentences, the pieces of the words shorter than words, in `data`."""
    return nouns


@pytest.fixture
def fresh_study(corpus: PreparedCorpus, run_on: RunOn) -> Study:
    """Two systems with random weights, of which nothing is computed yet."""
    runs = [run_on(corpus, name, **settings) for name, settings in RUNS.items()]
    return load_study(runs, "test", ON_CPU)


@pytest.fixture(scope="session")
def _measured_runs(_nouns: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs of `study` with all their results."""
    folder = tmp_path_factory.mktemp("measured")
    corpus = PreparedCorpus.open(_nouns)
    runs = [
        Run.open(write_run(folder / name, pipeline=corpus.pipeline, **facts_of(corpus), **settings))
        for name, settings in RUNS.items()
    ]
    with pytest.MonkeyPatch.context() as patch:  # random weights write long translations
        patch.setattr("jtrans.analysis.report.explorer.MOST_PIECES", 200)
        gather(load_study(runs, "test", ON_CPU), Silent())
    return folder


@pytest.fixture
def study(_measured_runs: Path, corpus: PreparedCorpus, tmp_path: Path) -> Study:
    """The two systems of `fresh_study` with all the results of a report in their caches."""
    runs = []
    for name in RUNS:
        run = Run.open(shutil.copytree(_measured_runs / name, tmp_path / name))
        run.update_info(**facts_of(corpus))
        runs.append(run)
    return load_study(runs, "test", ON_CPU)
