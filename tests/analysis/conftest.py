"""A prepared corpus with BPE, runs with random weights on it, and the study of them."""

from __future__ import annotations

import pytest
from plugins.random_runs import JOINT, ON_CPU, RunOn

from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus


@pytest.fixture
def corpus(nouns: PreparedCorpus) -> PreparedCorpus:
    """Twelve test sentences, the pieces of the words shorter than words, in `data`."""
    return nouns


@pytest.fixture
def study(corpus: PreparedCorpus, run_on: RunOn) -> Study:
    """Two systems with random weights."""
    runs = [
        run_on(corpus, "one", weights_seed=1),
        run_on(corpus, "two", weights_seed=2, config={"model": JOINT}),
    ]
    return load_study(runs, "test", ON_CPU)
