"""The labels a system with tagging heads learns, and corpora that have none to learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.tagging_system import MODEL, MakeTagger

from jtrans.config import build_config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, CorpusError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs
from jtrans.runs import Run
from jtrans.training.labels import learned_labels
from jtrans.training.session import compare

NAMES = {"pos": ["A", "B", "C"], "ner": ["O", "B-X", "I-X"], "other": ["?"]}


def labelled(corpus: PreparedCorpus, names: Any = NAMES, unlabelled: int = 0) -> PreparedCorpus:
    info = {**corpus.info, "labels": names, "unlabelled": {"train": unlabelled}}
    return replace(corpus, info=info)


@pytest.fixture
def model(make_tagger: MakeTagger) -> TranslationModel:
    config = build_config({"model": MODEL}, system_configs(), where="test")
    return build_model(config.model, 20, 20)


def test_a_model_learns_the_labels_that_its_heads_and_its_corpus_share(
    model: TranslationModel, corpus: PreparedCorpus
) -> None:
    assert learned_labels(model, labelled(corpus)) == {k: NAMES[k] for k in ("pos", "ner")}
    assert learned_labels(model, labelled(corpus, {"pos": ["A"]})) == {"pos": ["A"]}


@pytest.mark.parametrize(
    ("names", "unlabelled", "message"),
    [
        ({}, 0, "learns tags .pos, ner., but no training sentence of .* has labels"),
        (NAMES, 120, "no training sentence of .* has labels"),
    ],
)
def test_a_corpus_without_labels_is_refused(
    names: Any, unlabelled: int, message: str, model: TranslationModel, corpus: PreparedCorpus
) -> None:
    with pytest.raises(CorpusError, match=message):
        learned_labels(model, labelled(corpus, names, unlabelled))


def test_a_run_cannot_go_on_with_other_labels(
    make_tagger: MakeTagger, corpus: PreparedCorpus
) -> None:
    folder = make_tagger(pipeline=corpus.pipeline, labels={"pos": ["A", "B"]})
    run = Run.open(Path(folder))
    identity = {key: corpus.info["splits"]["train"][key] for key in ("sha256", "pairs", "tokens")}
    run.update_info(train=identity)
    config = run.config(system_configs())
    compare(run, config, labelled(corpus, {"pos": ["A", "B"]}))
    with pytest.raises(CheckpointError, match="trained with different labels"):
        compare(run, config, labelled(corpus, {"pos": ["B", "A"]}))
