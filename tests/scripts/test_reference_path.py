"""The reference path of the benchmarks against our models: the same numbers, another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugins.folders import GOLDEN, needs_golden

from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs
from jtrans.text.vocabulary import EOS, PAD
from jtrans.training.objective import Objective, batch_loss
from scripts.bench import reference_path as reference

SMOOTHING = 0.1
LAYERS: dict[str, dict[str, Any]] = {
    "reformer-base": {"layers": 2},
    "reformer-fast": {"layers": 2, "prenet_layers": 2},
    "transformer": {"encoder_layers": 2, "decoder_layers": 2},
}


def make_batch(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    def padded(lines: list[list[int]]) -> torch.Tensor:
        width = max(map(len, lines))
        return torch.tensor([line + [PAD] * (width - len(line)) for line in lines])

    source, target_out = padded(sources), padded(targets)
    return Batch(
        source=source,
        source_mask=source != PAD,
        target_in=padded([[EOS, *line[:-1]] for line in targets]),
        target_out=target_out,
        target_mask=target_out != PAD,
        indices=torch.arange(len(sources)),
    )


def random_batch(*, is_padded: bool) -> Batch:
    random = np.random.default_rng(3)

    def line(length: int) -> list[int]:
        return [*random.integers(4, 20, length - 1).tolist(), EOS]

    lengths = [(5, 4), (3, 6), (7, 2)] if is_padded else [(5, 4)] * 3
    return make_batch([line(S) for S, _ in lengths], [line(T) for _, T in lengths])


def tiny_model(system: str, **options: Any) -> TranslationModel:
    torch.manual_seed(1)
    values = {"width": 16, "ffn_width": 32, "heads": 2, "dropout": 0.0, **LAYERS[system]}
    config = system_configs()[system].model_validate({"system": system, **values, **options})
    model = build_model(config, 20, 24)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms other than 0 and 1, too
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@torch.no_grad()
def our_logits(model: TranslationModel, batch: Batch) -> torch.Tensor:
    memory = model.encode(batch.source, batch.source_mask)
    return model.project(model.decode(batch.target_in, memory))


def gradients(model: TranslationModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(model: TranslationModel, batch: Batch) -> None:
    loss, _ = batch_loss(model, batch, Objective(SMOOTHING))
    theirs = reference.ReferencePath(model).loss(batch, SMOOTHING)
    torch.testing.assert_close(theirs, loss, atol=1e-4, rtol=1e-5)
    ours, expected = gradients(model, loss), gradients(model, theirs)
    assert ours.keys() == expected.keys()
    for name, gradient in ours.items():
        scale = float(expected[name].abs().max()) + 1.0
        torch.testing.assert_close(gradient, expected[name], atol=1e-5 * scale, rtol=1e-5, msg=name)


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("system", LAYERS)
@pytest.mark.parametrize("options", [{}, {"tie": "decoder", "position_offset": 2}])
def test_logits_loss_and_gradients_are_ours(
    system: str, options: dict[str, Any], is_padded: bool
) -> None:
    model, batch = tiny_model(system, **options), random_batch(is_padded=is_padded)
    with torch.no_grad():
        logits = reference.ReferencePath(model).logits(batch)
    is_real = batch.target_mask
    expected = our_logits(model, batch)[is_real]
    torch.testing.assert_close(logits[is_real], expected, atol=1e-5, rtol=1e-5)
    assert_same_gradients(model, batch)


@pytest.mark.parametrize("system", ["reformer-base", "reformer-fast"])
def test_dropout_is_shared_along_the_same_axes(system: str) -> None:
    model = tiny_model(system, dropout=0.5, attention_dropout=0.5, relu_dropout=0.5)
    seen: list[tuple[int, ...]] = []
    path: Any = reference.ReferencePath(model.train())
    draw = path.shared_dropout

    def spy(x: torch.Tensor, *, shape: tuple[int, ...], rate: float) -> torch.Tensor:
        seen.append(shape)
        return torch.as_tensor(draw(x, shape=shape, rate=rate))

    path.shared_dropout = spy
    path.logits(random_batch(is_padded=True))
    S, T, B, E, F, H = 7, 6, 3, 16, 32, 2
    layer = [(1, B * H, T, T), (T, 1, B, E), (1, 1, B, F), (1, 1, B, E)]
    layer += [(1, B * H, S, S), (1, S, B, E), (1, 1, B, F), (1, 1, B, E)]
    assert seen == 2 * layer


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match="published pre-norm"):
        reference.ReferencePath(tiny_model("reformer-base", norm="post"))


def test_updates_lower_the_loss() -> None:
    model, batch = tiny_model("reformer-base"), random_batch(is_padded=True)
    training = reference.ReferenceTraining(model, smoothing=0.0, clip_norm=25.0)
    before = training.path.loss(batch, 0.0).item()
    for _ in range(5):
        training.update([batch, batch])
    assert training.path.loss(batch, 0.0).item() < before


def test_micro_batches_hold_every_pair_once_within_the_budget() -> None:
    random = np.random.default_rng(1)
    source, target = random.integers(2, 40, (2, 500))
    batches = reference.reference_batches(source, target, max_tokens=256, seed=1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    for batch in batches:
        assert len(batch) * max(source[batch].max(), target[batch].max()) <= 256
    assert sum(len(batch) % 8 == 0 or len(batch) < 8 for batch in batches) >= len(batches) - 1


@needs_golden
@pytest.mark.parametrize(
    "name", ["reformer-base", "reformer-fast", "reformer-fast-tied", "transformer-pre"]
)
def test_logits_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    from jtrans.decoding.translator import load_model
    from jtrans.exchange.reformer_fairseq import import_checkpoint

    folder = GOLDEN / name
    imported = import_checkpoint(
        folder / "checkpoint_best.pt",
        source_dict=folder / "dict.src.txt",
        target_dict=folder / "dict.tgt.txt",
        run_folder=tmp_path / name,
    )
    products = torch.get_float32_matmul_precision()
    model = load_model(imported, device=torch.device("cpu"))
    torch.set_float32_matmul_precision(products)
    pairs = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["pairs"]
    sources = [imported.pipeline.source.encode(pair["source"]) for pair in pairs]
    targets = [imported.pipeline.target.encode(pair["target"]) for pair in pairs]
    batch = make_batch(sources, targets)
    model.requires_grad_(True)
    with torch.no_grad():
        logits = reference.ReferencePath(model).logits(batch)
    with np.load(folder / "expected_logits.npz") as arrays:
        for i, target in enumerate(targets):
            expected = arrays[f"logits_{i}"]
            ours = np.concatenate([expected[:, [1, 2, 3, 0]], expected[:, 4:]], axis=1)
            np.testing.assert_allclose(logits[i, : len(target)].numpy(), ours, atol=1e-5, rtol=0)
    assert_same_gradients(model, batch)
