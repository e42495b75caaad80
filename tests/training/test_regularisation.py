from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from jtrans.data.batch import collate
from jtrans.data.prepared import PreparedCorpus
from jtrans.data.word_dropout import drop_words
from jtrans.errors import ConfigError
from jtrans.models.systems import PervasiveConfig
from jtrans.models.zoo import build_model
from jtrans.nn.embedding import PADDING
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS, UNK
from jtrans.training import objective as objective_module
from jtrans.training.events import TrainingEvents
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.r_drop import cut_second, r_drop_loss, repeated
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer


@pytest.fixture
def batch(corpus: PreparedCorpus) -> Any:
    return collate(corpus.pairs("train"), [0, 3, 5, 2])


def test_dropped_words_are_read_as_unknown_and_still_predicted(batch: Any) -> None:
    dropped = drop_words(batch, 0.5)
    for name, mask in (("source", batch.source_mask), ("target_in", batch.target_mask)):
        before, after = getattr(batch, name), getattr(dropped, name)
        changed = before != after
        assert changed.any() and (after[changed] == UNK).all()
        assert mask[changed].all() and (before[changed] != EOS).all()
    assert torch.equal(dropped.target_out, batch.target_out)
    assert torch.equal(drop_words(batch, 0.0).source, batch.source)


def make_model(corpus: PreparedCorpus, make_config: Any, dropout: float) -> Any:
    config = make_config(model={"dropout": dropout})
    return build_model(config.model, *corpus.pipeline.vocabulary_sizes).double().train()


def test_r_drop_without_dropout_is_the_cross_entropy(
    batch: Any, corpus: PreparedCorpus, make_config: Any
) -> None:
    model = make_model(corpus, make_config, 0.0)
    twice = repeated(batch)
    memory = model.encode(twice.source, twice.source_mask)
    losses = r_drop_loss(model, twice, Objective(0.1), memory, 5.0)
    expected = batch_loss(model, batch, Objective(0.1))
    assert torch.allclose(torch.stack(losses), torch.stack(expected))


@pytest.mark.parametrize("at_once", [2**26, 100])  # in one piece, and in chunks
def test_r_drop_is_its_equation(
    at_once: int, batch: Any, corpus: PreparedCorpus, make_config: Any, monkeypatch: Any
) -> None:
    """Liang et al. 2021, equations 2 to 4, halved."""
    monkeypatch.setattr(objective_module, "LOGITS_AT_ONCE", at_once)
    model = make_model(corpus, make_config, 0.3)
    twice = repeated(batch)
    torch.manual_seed(3)
    memory = model.encode(twice.source, twice.source_mask)
    loss, nll = r_drop_loss(model, twice, Objective(), memory, 5.0)
    torch.manual_seed(3)
    memory = model.encode(twice.source, twice.source_mask)
    logits = model.project(model.decode(twice.target_in, memory))[twice.target_mask]
    p, q = torch.log_softmax(logits, -1).chunk(2)
    labels = batch.target_out[batch.target_mask]
    cross_entropy = torch.stack(
        [F.nll_loss(each, labels, reduction="sum") for each in (p, q)]
    ).mean()
    both = F.kl_div(q, p, log_target=True, reduction="sum") + F.kl_div(
        p, q, log_target=True, reduction="sum"
    )
    assert both > 0.01
    assert torch.allclose(nll, cross_entropy)
    assert torch.allclose(loss, cross_entropy + 5.0 * 0.5 * (both / 2))


@pytest.mark.parametrize(
    ("system", "size"),
    [("transformer", {"micro_batch_tokens": 100}), ("reformer-fast", {"micro_batch_joint": 600})],
)
def test_r_drop_halves_the_micro_batches_and_keeps_the_updates(
    system: str, size: dict[str, int], corpus: PreparedCorpus, make_config: Any
) -> None:
    plans = []
    for weight in (0.0, 5.0):
        config = make_config(system, r_drop=weight, batch_tokens=200, **size)
        trainer, _ = make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())
        plans.append(trainer.plan.epoch(0))
    assert len(plans[0]) == pytest.approx(len(plans[1]), abs=1)
    assert sum(map(len, plans[1])) > 1.5 * sum(map(len, plans[0]))


def test_cutoff_empties_tokens_of_the_second_pass_alone_and_predicts_them(batch: Any) -> None:
    twice = repeated(batch)
    cut = cut_second(twice, 0.5)
    B = len(batch.source)
    for name in ("source", "target_in"):
        before, after = getattr(twice, name), getattr(cut, name)
        changed = before != after
        assert not changed[:B].any() and changed[B:].any()
        assert (after[changed] == PADDING).all()
    assert torch.equal(cut.source_mask, twice.source_mask)
    assert torch.equal(cut.target_out, twice.target_out)


def test_a_token_that_was_cut_off_has_neither_vector_nor_position(
    batch: Any, corpus: PreparedCorpus, make_config: Any
) -> None:
    model = make_model(corpus, make_config, 0.0)
    cut = cut_second(repeated(batch), 1.0)
    vectors = model.target_embedding(cut.target_in)
    assert (vectors[len(batch.source) :] == 0.0).all()
    hidden = model.decode(cut.target_in, model.encode(cut.source, cut.source_mask))
    assert hidden.isfinite().all()


def test_cutoff_without_r_drop_is_refused(make_config: Any) -> None:
    with pytest.raises(ConfigError, match="second pass of R-Drop"):
        make_config(cutoff=0.05)


def test_cutoff_is_refused_where_batches_are_normalised(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    model = PervasiveConfig(network="dense", aggregation="max", layers=1)
    config = make_config(r_drop=5.0, cutoff=0.05).model_copy(update={"model": model})
    with pytest.raises(ConfigError, match="would count as padding") as caught:
        make_trainer(Run(Path("never")), config, corpus)
    assert caught.value.where == "training.cutoff"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options",
    [
        {"r_drop": 5.0, "word_dropout": 0.1, "cutoff": 0.1},
        {"ema_decay": 0.9},
        {"optimiser": {"name": "adafactor"}, "schedule": {"name": "cosine", "warmup": 2}},
        {"best_metric": "valid-chrf", "stop": {"metric": "valid-chrf", "patience": 5}},
    ],
    ids=["r-drop", "moving average", "adafactor", "chrF"],
)
def test_an_interrupted_run_with_these_settings_ends_as_if_it_had_not_been(
    options: dict[str, Any], corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=8, validate_every=3, **options)
    train(config, data=corpus.folder, run=tmp_path / "whole")
    calls = iter(range(100))
    train(
        config,
        data=corpus.folder,
        run=tmp_path / "broken",
        should_stop=lambda: next(calls) == 4,
    )
    train(config, data=corpus.folder, run=tmp_path / "broken")
    folders = [Run(tmp_path / name).checkpoint("last").folder for name in ("whole", "broken")]
    for name in ("model.safetensors", "state.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
