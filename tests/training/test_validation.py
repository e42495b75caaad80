"""Validation BLEU on a valid split with several references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.listener import Listener
from sacrebleu.metrics.bleu import BLEU

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import build_model
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.progress import Silent
from jtrans.training.validation import Validator

SOURCE = [f"eins zwei drei vier {word}" for word in ("hund", "katze", "maus", "igel")]
FIRST = [f"one two three four {word}" for word in ("dog", "cat", "mouse", "hedgehog")]
SECOND = [f"four three two one {word}" for word in ("cat", "mouse", "hedgehog", "dog")]


@pytest.fixture
def two_references(tmp_path: Path) -> PreparedCorpus:
    """A corpus whose valid split has two references."""
    splits = {
        "train": ParallelText(SOURCE, FIRST),
        "valid": ParallelText(SOURCE, FIRST, references=(FIRST, SECOND)),
    }
    options = PrepareOptions(
        source_segment="whitespace", target_segment="whitespace", bpe="none", drop_leaked=False
    )
    return prepare(Corpus("two", ("de", "en"), splits), tmp_path / "two", options=options)


def test_a_batch_that_does_not_fit_into_memory_is_halved(
    two_references: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.training import objective, validation

    config = make_config(validate_sentences=0)
    pipeline = two_references.pipeline
    model = build_model(config.model, *pipeline.vocabulary_sizes).eval()
    validator = Validator(two_references, config, is_joint=False, precision="fp32")
    whole = validator.teacher_forced(model, Silent())
    loss, tried = objective.batch_loss, []

    def with_little_memory(model: Any, batch: Any, *rest: Any) -> Any:
        tried.append(len(batch.source))
        if len(batch.source) > 1:
            raise torch.OutOfMemoryError("made up")
        return loss(model, batch, *rest)

    monkeypatch.setattr(validation, "batch_loss", with_little_memory)
    assert validator.teacher_forced(model, Silent())["loss"] == pytest.approx(whole["loss"])
    assert tried[0] == 4 and tried.count(1) == 4


def test_graphs_of_training_make_room_for_a_validation(
    two_references: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.decoding import batched_search
    from jtrans.training import validation

    config = make_config(validate_sentences=4)
    model = build_model(config.model, *two_references.pipeline.vocabulary_sizes).eval()
    settings: dict[str, Any] = {"is_joint": False, "precision": "fp32"}
    expected = Validator(two_references, config, **settings)(model)
    graphs = [True]

    def make_room() -> bool:
        return bool(graphs) and graphs.pop()

    def beside_graphs(work: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if graphs:
                raise torch.OutOfMemoryError("out of memory")
            return work(*arguments)

        return call

    for place, name in ((validation, "batch_loss"), (batched_search, "beam_search")):
        monkeypatch.setattr(place, name, beside_graphs(getattr(place, name)))
    listener, validator = (
        Listener(),
        Validator(two_references, config, **settings, make_room=make_room),
    )
    losses = validator.teacher_forced(model, listener)
    graphs.append(True)
    scores = validator.translation_scores(model, listener)
    assert {**losses, **scores} == pytest.approx(expected)
    assert not graphs and not listener.warnings  # neither halved anything


@pytest.mark.parametrize("count", [2, 4])
def test_bleu_uses_all_references_of_the_sentences_chosen(
    two_references: PreparedCorpus, make_config: Any, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    from jtrans.decoding.search.trace import Hypothesis
    from jtrans.training import validation

    pipeline = two_references.pipeline
    given = [FIRST[0], SECOND[1], "four three two one dog", SECOND[3]]
    number = {tuple(pipeline.source.encode(line)): n for n, line in enumerate(SOURCE)}

    def translate(models: Any, ids: Any, options: Any, **kwargs: Any) -> list[list[Hypothesis]]:
        assert options.beam == 2
        lines = [given[number[tuple(one.tolist())]] for one in ids]
        return [[Hypothesis(pipeline.target.encode(line), 0.0, 0.0, [])] for line in lines]

    monkeypatch.setattr(validation, "translate_ids", translate)
    config = make_config(validate_sentences=count, validate_beam=2)
    validator = Validator(two_references, config, is_joint=False, precision="fp32")
    chosen = validator.sentences
    assert len(chosen) == count
    lines = [[one[n] for n in chosen] for one in (given, FIRST, SECOND)]
    expected = BLEU().corpus_score(lines[0], lines[1:]).score
    scores = validator.translation_scores(None, None)  # type: ignore[arg-type]
    assert scores == pytest.approx({"bleu": expected})
    assert expected > BLEU().corpus_score(lines[0], lines[1:2]).score + 10
