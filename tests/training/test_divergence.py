"""Training with losses and gradients that are not finite (docs/training.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from plugins.rank_processes import run_ranks
from plugins.small_corpus import ENGLISH, NOUNS, VERBS, WHITESPACE

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run
from jtrans.training.events import Result, Skip, TrainingEvents
from jtrans.training.session import train

POISONED = 31  # the training pair with the word that no other has
WORD = "nashorn"
HUGE = 3e38  # finite, but larger by the scale of an embedding it is not

Poisoned = tuple[PreparedCorpus, Callable[[Any], Run]]


class Heard(TrainingEvents):
    """Remembers the skipped updates."""

    def __init__(self) -> None:
        self.skips: list[Skip] = []

    def skip(self, skip: Skip) -> None:
        self.skips.append(skip)


def make_corpus(folder: Path) -> PreparedCorpus:
    """Prepare a corpus with one sentence that has a word of its own."""
    draw = np.random.default_rng(1)
    source = []
    for count in range(140):
        words = [*draw.choice(NOUNS, 2), *draw.choice(VERBS, 1), *draw.choice(NOUNS, count % 5)]
        source.append(" ".join(words))
    source[POISONED] = f"hund mag {WORD}"
    target = [" ".join(ENGLISH.get(word, "dog") for word in line.split()) for line in source]
    splits = {
        "train": ParallelText(source[:120], target[:120]),
        "valid": ParallelText(source[120:], target[120:]),
    }
    options = PrepareOptions(**WHITESPACE, bpe="none", deduplicate=False, drop_leaked=False)
    return prepare(Corpus("animals", ("de", "en"), splits), folder, options=options, workers=1)


@pytest.fixture(scope="module")
def poisoned_corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    return make_corpus(tmp_path_factory.mktemp("poisoned") / "corpus")


@pytest.fixture
def poisoned(poisoned_corpus: PreparedCorpus, tmp_path: Path) -> Poisoned:
    """A corpus, and a function that makes a run to start from: its vector of the word is huge."""

    def make(config: Any) -> Run:
        folder = tmp_path / "initial"
        training = config.training.model_copy(update={"max_updates": 1})
        train(config.model_copy(update={"training": training}), data=corpus.folder, run=folder)
        file = Run(folder).checkpoint("last").weights
        weights = safetensors.torch.load_file(file)
        row = corpus.pipeline.source.encode(WORD)[0]
        weights["source_embedding.tokens.weight"][row] = HUGE
        safetensors.torch.save_file(weights, file)
        (file.parent / "sha256.json").unlink()
        return Run(folder)

    corpus = poisoned_corpus
    assert corpus.pipeline.source.encode(WORD)[0] in corpus.pairs("train").source[POISONED]
    return corpus, make


def check(result: Result, heard: Heard, run: Path, count: int) -> None:
    """Check that one sentence was named, in one update, and left out."""
    (skip,) = heard.skips
    assert (skip.sentences, skip.left_out, skip.named) == ((POISONED,), True, 1)
    assert "source_embedding" in skip.layer
    assert (result.update, result.skipped, result.left_out) == (count, 1, (POISONED,))
    (event,) = [each for each in Run(run).events() if each["event"] == "skip"]
    assert (event["update"], event["sentences"], event["layer"]) == (
        skip.update,
        [POISONED],
        skip.layer,
    )


@pytest.mark.parametrize("guard", [False, True], ids=["plain", "guard"])
@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_a_run_with_one_poisoned_sentence_goes_on_and_names_it(
    system: str, guard: bool, poisoned: Poisoned, make_config: Any, tmp_path: Path
) -> None:
    corpus, initial = poisoned
    config = make_config(system, max_epochs=3, gradient_guard=guard, micro_batch_tokens=30)
    heard, run = Heard(), tmp_path / "run"
    result = train(config, data=corpus.folder, run=run, initial=initial(config), events=heard)
    check(result, heard, run, result.update)
    assert result.epochs == 3 and result.dropped == 0
    rows = [each for each in Run(run).events() if each["event"] == "validation"]
    assert rows[-1]["valid_loss"] < rows[0]["valid_loss"]
    weights = safetensors.torch.load_file(Run(run).checkpoint("last").weights)
    assert all(bool(weight.isfinite().all()) for weight in weights.values())


def test_the_rank_with_the_sentence_names_it_and_all_leave_it_out(
    poisoned: Poisoned, make_config: Any, tmp_path: Path
) -> None:
    corpus, initial = poisoned
    config = make_config(max_epochs=2, micro_batch_tokens=30)
    first, run = initial(config), tmp_path / "run"

    def one_rank(_: int) -> tuple[Result, list[Skip]]:
        heard = Heard()
        return train(config, data=corpus.folder, run=run, initial=first, events=heard), heard.skips

    ranks = run_ranks(2, one_rank)
    for result, skips in ranks:
        heard = Heard()
        heard.skips = skips
        check(result, heard, run, result.update)
    assert ranks[0][1] == ranks[1][1]
    assert len(ranks[0][1][0].ranks) == 1
