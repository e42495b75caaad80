"""BPE-dropout in training: exact when a run continues, refused without BPE."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugins.training_runs import CrashError, CrashingEvents

from jtrans.config import build_config
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.bpe_dropout import BpeDropout
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError
from jtrans.models.zoo import system_configs
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run
from jtrans.text.vocabulary import PAD
from jtrans.training.estimate import estimate
from jtrans.training.events import TrainingEvents
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """A prepared corpus of words that BPE takes apart."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcde", k=draw.randint(2, 6))) for _ in range(60)]
    lines = [" ".join(draw.choices(words, k=draw.randint(2, 5))) for _ in range(100)]
    split = {"train": slice(0, 90), "valid": slice(90, 100)}
    splits = {
        name: ParallelText(lines[part], [line[::-1] for line in lines[part]])
        for name, part in split.items()
    }
    options = PrepareOptions(bpe_merges=30, drop_identical=False)
    folder = tmp_path_factory.mktemp("letters") / "letters"
    return prepare(Corpus("letters", ("de", "en"), splits), folder, options=options, workers=1)


def test_a_run_that_crashed_continues_with_the_very_same_pieces(
    letters: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(
        bpe_dropout=0.3, max_updates=14, batch_tokens=300, validate_every=3, validate_sentences=0
    )
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    train(config, data=letters.folder, run=whole)
    with pytest.raises(CrashError):
        train(config, data=letters.folder, run=parted, events=CrashingEvents(11))
    train(config, data=letters.folder, run=parted)
    weights = [Run(run).checkpoint("last").weights.read_bytes() for run in (whole, parted)]
    assert weights[0] == weights[1]


def test_every_epoch_is_planned_for_its_own_lengths(
    letters: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(bpe_dropout=0.5, batch_tokens=100)
    trainer, _ = make_trainer(Run(tmp_path), config, letters, events=TrainingEvents())
    trainer.plan.largest = 60
    read: list[int] = []  # the target tokens of each micro-batch
    trainer.model.get_submodule("target_embedding").register_forward_pre_hook(
        lambda _, inputs: read.append(int((inputs[0] != PAD).sum()))
    )
    seen = []
    for epoch in range(2):
        trainer.state.epoch, trainer.state.position, trainer.updates = epoch, 0, []
        read.clear()
        trainer.update()
        first = trainer.updates[0]
        assert read == [trainer.plan.tokens([micro_batch]) for micro_batch in first]
        assert all(each.size == 1 or trainer.plan.size(each) <= 2 * 60 for each in first)
        indices = np.concatenate(
            [micro_batch for update in trainer.updates for micro_batch in update]
        )
        assert sorted(indices.tolist()) == list(range(90))
        assert trainer.plan.tokens([indices]) == trainer.pairs.target.flat[0].size
        seen.append(trainer.pairs.target.flat[0].size)
    plain = letters.pairs("train").target.flat[0].size
    assert len({*seen, plain}) == 3 and min(seen) > plain


def test_an_estimate_counts_the_pieces_of_an_epoch(
    letters: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(bpe_dropout=0.5, batch_tokens=100)
    trainer, _ = make_trainer(Run(letters.folder), config, letters)
    updates = trainer.plan_epoch()
    cost = estimate(config, data=letters.folder)
    assert (cost.tokens, cost.updates) == (trainer.pairs.target.flat[0].size, len(updates))
    assert cost.tokens > letters.pairs("train").target.flat[0].size


def test_a_corpus_without_bpe_is_refused(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"bpe_dropout 0.1 needs BPE"):
        train(make_config(bpe_dropout=0.1), data=corpus.folder, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sentence_that_would_become_too_long_keeps_its_pieces(letters: PreparedCorpus) -> None:
    pairs, pipeline = letters.pairs("train"), letters.pipeline
    free = BpeDropout(pairs, pipeline, rate=0.5, seed=1).epoch(0)
    longest = int(pairs.source.lengths.max())
    bounded = BpeDropout(pairs, pipeline, rate=0.5, seed=1, longest=longest).epoch(0)
    is_too_long = free.source.lengths > longest
    assert 0 < is_too_long.sum() < len(is_too_long)
    for index, is_kept in enumerate(is_too_long):
        expected = pairs if is_kept else free
        assert bounded.source[index].tolist() == expected.source[index].tolist()


def test_no_epoch_exceeds_the_position_tables_of_the_model(
    letters: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    pairs = letters.pairs("train")
    longest = int(max(pairs.source.lengths.max(), pairs.target.lengths.max()))
    values = make_config(bpe_dropout=0.9, max_updates=2, validate_sentences=0).model_dump()
    layers = {"encoder_layers": "(8, 3)", "decoder_layers": "(8, 3)"}
    values["model"] = {"system": "convs2s", "width": 8, "output_width": 8, "positions": longest}
    values["model"] |= layers
    config = build_config(values, system_configs(), where="test")
    assert train(config, data=letters.folder, run=tmp_path / "run").update == 2
