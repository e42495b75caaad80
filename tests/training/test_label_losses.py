"""Labels of the source are learned beside translation (docs/systems.md 6.4, P8 and P9)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.config import Config, build_config
from jtrans.data.batch import collate
from jtrans.data.ids import IGNORE, IdStore, ParallelIds
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError
from jtrans.files import read_json, write_json
from jtrans.models.base import TranslationModel
from jtrans.models.systems import TransformerPlusPlusConfig
from jtrans.models.zoo import build_model, system_configs
from jtrans.runs import Run
from jtrans.training.events import Start, TrainingEvents
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.setup.checks import check_labels
from jtrans.training.state import Totals

SIZES: dict[str, Any] = {"width": 16, "ffn_width": 32, "heads": 2, "kernels": (3, 5)}
SIZES |= {"encoder_layers": 3, "decoder_layers": 1, "pos_tags": 5, "ner_tags": 4}
SIZES |= {"dropout": 0.0, "embedding_dropout": 0.0, "kernel_dropout": 0.0}
UPDATE = [np.array([0, 1, 2]), np.array([3, 4])]


@pytest.fixture(scope="module")
def pairs() -> ParallelIds:
    """Return five pairs, of whose source tokens some have labels."""
    draw = np.random.default_rng(1)
    offsets = np.cumsum([0, 5, 3, 7, 2, 4])

    def store(low: int, high: int, kind: Any = np.int32) -> IdStore:
        return IdStore(draw.integers(low, high, offsets[-1]).astype(kind), offsets)

    labels = {"pos": store(0, 5, np.int8), "ner": store(0, 4, np.int8)}
    for kind, store_ in labels.items():
        store_.flat[0][:: 3 if kind == "pos" else 2] = IGNORE
    return ParallelIds(store(4, 20), store(4, 20), labels)


def make_model(**changes: Any) -> TranslationModel:
    torch.manual_seed(1)
    return build_model(TransformerPlusPlusConfig(**(SIZES | changes)), 20, 20).double().train()


def gradients(
    model: TranslationModel, pairs: ParallelIds, update: Any, *, r_drop: float = 0.0
) -> dict[str, Tensor | None]:
    model.zero_grad()
    accumulator = GradientAccumulator(model, Objective(), precision="fp32", r_drop=r_drop)
    accumulator.accumulate(UpdateLoss(pairs, 20, accumulator.labelled(pairs, update)), update)
    return {name: p.grad for name, p in model.named_parameters()}


def test_the_loss_of_an_update_is_the_weighted_sum_of_means(pairs: ParallelIds) -> None:
    model = make_model(pos_weight=0.3, ner_weight=0.7)
    ours = gradients(model, pairs, UPDATE)
    model.zero_grad()
    batch = collate(pairs, np.arange(5))
    memory = model.encode(batch.source, batch.source_mask)
    loss = batch_loss(model, batch, Objective(), memory)[0] / 20
    for kind, weight in (("pos", 0.3), ("ner", 0.7)):
        logits = model.tag(memory)[kind].flatten(0, 1)
        loss = loss + weight * F.cross_entropy(logits, batch.labels[kind].flatten())
    loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-9, atol=1e-12)


def test_the_gradient_does_not_depend_on_the_split_into_micro_batches(pairs: ParallelIds) -> None:
    model = make_model()
    whole, parts = (gradients(model, pairs, u) for u in ([np.arange(5)], UPDATE))
    for name, gradient in parts.items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-9, atol=1e-12)


def test_the_two_passes_of_r_drop_weigh_as_much_as_one(pairs: ParallelIds) -> None:
    model = make_model()  # without dropout, so that both passes are the same
    once, twice = (gradients(model, pairs, UPDATE, r_drop=weight) for weight in (0.0, 5.0))
    for name, gradient in twice.items():
        torch.testing.assert_close(gradient, once[name], rtol=1e-9, atol=1e-12)


def test_without_weights_the_heads_learn_nothing_and_all_else_as_without_heads(
    pairs: ParallelIds,
) -> None:
    model = make_model(pos_weight=0.0, ner_weight=0.0)
    plain = make_model(pos_tags=0, ner_tags=0)
    missing, unexpected = plain.load_state_dict(model.state_dict(), strict=False)
    assert not missing and all(name.startswith("heads.") for name in unexpected)
    ours, theirs = (gradients(each, pairs, UPDATE) for each in (model, plain))
    for name, gradient in ours.items():  # P8
        if name.startswith("heads."):
            assert gradient is None
        else:
            torch.testing.assert_close(gradient, theirs[name], rtol=0.0, atol=0.0)


@pytest.mark.parametrize(("kind", "layers"), [("pos", 1), ("ner", 2)])
def test_a_label_has_no_gradient_in_layers_after_its_own(
    pairs: ParallelIds, kind: str, layers: int
) -> None:
    model = make_model()
    batch = collate(pairs, np.arange(5))
    memory = model.encode(batch.source, batch.source_mask)
    model.auxiliary(memory, batch.labels)[kind].backward()
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    in_encoder = {name.split(".")[2] for name in reached if name.startswith("encoder.layers")}
    assert in_encoder == {str(n) for n in range(layers)}  # P9
    assert not any(name.startswith(("layers", "output", "target")) for name in reached)


def test_heads_without_labels_are_warned_about(corpus: PreparedCorpus) -> None:
    model = make_model()
    assert not corpus.label_names
    warnings = check_labels(model, corpus)
    assert len(warnings) == 2
    assert "has no pos labels" in warnings[0] and "model.ner_weight were 0" in warnings[1]


def test_more_labels_than_the_head_has_are_refused(corpus: PreparedCorpus) -> None:
    info = corpus.info | {"labels": {"pos": [str(n) for n in range(6)]}}
    labelled = PreparedCorpus(corpus.folder, corpus.pipeline, info)
    with pytest.raises(ConfigError, match="6 labels of the kind pos, the model 5") as caught:
        check_labels(make_model(), labelled)
    assert caught.value.hint == "--set model.pos_tags=6"


def labelled_copy(corpus: PreparedCorpus, folder: Path) -> Path:
    """Copy a corpus, and label most of its source tokens by their ids modulo 3."""
    shutil.copytree(corpus.folder, folder)
    for split in corpus.splits:
        ids = corpus.pairs(split).source.flat[0]
        labels = np.where(ids % 4 == 0, IGNORE, ids % 3).astype(np.int8)
        np.save(folder / f"{split}.source.pos.npy", labels)
    info = read_json(folder / "corpus.json") | {"labels": {"pos": ["A", "B", "C"]}}
    write_json(folder / "corpus.json", info)
    return folder


def tagging_config(**training: Any) -> Config:
    """Return the configuration of a run that learns labels; keywords are settings of [training]."""
    values = {
        "model": SIZES | {"system": "transformer-pp", "dropout": 0.1},
        "training": {
            "batch_tokens": 200,
            "learning_rate": 0.01,
            "validate_sentences": 0,
            "schedule": {"name": "constant"},
            **training,
        },
    }
    return build_config(values, system_configs(), where="test")


def test_the_shares_of_several_processes_add_up_to_the_gradient_of_an_update(
    corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = PreparedCorpus.open(labelled_copy(corpus, tmp_path / "data"))
    trainer, _ = make_trainer(Run(tmp_path), tagging_config(max_updates=1), data)
    trainer.model.double().eval()
    update = [np.arange(3), np.arange(3, 9)]
    trainer.accumulate(update)
    trained = [p for p in trainer.model.parameters() if p.grad is not None]
    whole = [p.grad for p in trained]
    trainer.optimiser.zero_grad()
    for share in update:
        monkeypatch.setattr(trainer.ranks, "deal", lambda *_, share=share: ([share], 0))
        trainer.accumulate(update)
    for parameter, gradient in zip(trained, whole, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-12)


def test_accuracy_is_that_of_the_labelled_tokens(corpus: PreparedCorpus, tmp_path: Path) -> None:
    data = PreparedCorpus.open(labelled_copy(corpus, tmp_path / "data"))
    trainer, _ = make_trainer(Run(tmp_path), tagging_config(max_updates=1), data)
    measured = trainer.validator(trainer.model)["pos_accuracy"]
    pairs, model = data.pairs("valid"), trainer.model.eval()
    batch = collate(pairs, range(len(pairs)))
    labels, is_labelled = batch.labels["pos"], batch.labels["pos"] != IGNORE
    assert 0 < is_labelled.sum() < batch.source_mask.sum()
    tags = model.tag(model.encode(batch.source, batch.source_mask))["pos"].argmax(-1)
    expected = float((tags == labels)[is_labelled].double().mean())
    assert measured == pytest.approx(expected) and measured > 0.0


def test_a_run_logs_the_losses_and_accuracies_of_labels_and_resumes(
    corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.training.trainer.LOG_EVERY", 3)
    data = labelled_copy(corpus, tmp_path / "data")
    started: list[Start] = []

    class Events(TrainingEvents):
        def start(self, start: Start) -> None:
            started.append(start)

    def run(name: str, updates: int) -> list[dict[str, Any]]:
        config = tagging_config(max_updates=updates)
        result = train(config, data=data, run=tmp_path / name, events=Events())
        assert 0.5 < result.validation["pos_accuracy"] <= 1.0
        assert "ner_accuracy" not in result.validation
        return list(Run(tmp_path / name).events())

    whole = run("whole", 24)
    run("parts", 10)
    parts = run("parts", 24)
    assert len(started[0].warnings) == 1 and "no ner labels" in started[0].warnings[0]
    logged = [[e["pos_loss"] for e in log if e["event"] == "train"] for log in (whole, parts)]
    assert logged[0] == logged[1] and logged[0][-1] < logged[0][0]
    last = [[e for e in log if e["event"] == "validation"][-1] for log in (whole, parts)]
    assert last[0]["accuracy"] == last[1]["accuracy"] != {}


def test_the_accuracy_of_labels_decides_which_checkpoint_is_best(
    corpus: PreparedCorpus, tmp_path: Path
) -> None:
    data = labelled_copy(corpus, tmp_path / "data")
    config = tagging_config(best_metric="valid-pos", max_updates=6, validate_every=2)
    train(config, data=data, run=tmp_path / "run")
    rows = [e for e in Run(tmp_path / "run").events() if e["event"] == "validation"]
    accuracies = [row["accuracy"]["pos"] for row in rows]
    assert len(rows) == 3
    assert Run(tmp_path / "run").pointers()["best_value"] == max(accuracies)


def test_sums_of_an_older_checkpoint_have_no_labels() -> None:
    assert Totals(loss=1.0, tokens=2).labels == {}
