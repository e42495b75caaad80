"""A run with tagging heads goes on only with the labels that it learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plugins.tagging_system import MakeTagger

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training.setup.continuing import compare


def labelled(corpus: PreparedCorpus, names: dict[str, list[str]]) -> PreparedCorpus:
    return replace(corpus, info={**corpus.info, "labels": names})


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
