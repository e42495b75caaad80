"""Searching in bfloat16: the same results as autocast gives, with weights converted once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from plugins.random_runs import ON_CPU, TRANSFORMER, MakeRun
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.prepared.converted import HalfPrecision, with_bf16_products
from jtrans.decoding.translator import Translator
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs
from jtrans.nn.device import autocast
from jtrans.runs import Run

CPU = torch.device("cpu")
LINES = ["ein mann liest .", "hund", "ein hund rennt schnell .", "ein ein mann mann rennt ."]
# a joint system without a prepared form
PERVASIVE = {"system": "pervasive", "layers": 1, "kernel": 3}
PERVASIVE |= {"width": 8, "channels": 8, "ffn_width": 16}
SYSTEMS: dict[str, dict[str, Any]] = {
    "transformer": {"encoder_layers": 6, "decoder_layers": 6},
    "transformer, tied": {"encoder_layers": 1, "decoder_layers": 1, "tie": "all"},
    "reformer-base": {"layers": 2},
    "reformer-fast": {"layers": 2, "prenet_layers": 2, "tie": "decoder"},
}


class Operations(TorchDispatchMode):
    """Counts operations, and the conversions of a model's weights."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.total = self.conversions = self.of_weights = 0

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.total += 1
        if "_to_copy" in str(f):
            self.conversions += 1
            self.of_weights += args[0].untyped_storage().data_ptr() in self.storages
        return f(*args, **(kwargs or {}))


def make(name: str) -> TranslationModel:
    torch.manual_seed(1)
    system = name.partition(",")[0]
    sizes: dict[str, Any] = {"width": 32, "ffn_width": 64, "heads": 2, **SYSTEMS[name]}
    config = system_configs()[system](system=system, **sizes)
    return build_model(config, 40, 40).eval().requires_grad_(False)


@torch.no_grad()
def step(model: TranslationModel, precision: str = "bf16") -> tuple[Tensor, Operations]:
    """Return the logits of the third step of a beam search, and what it took."""
    source = torch.tensor([[5, 6, 7, 8, 1], [9, 8, 1, 0, 0]])
    token = torch.arange(4, 14)
    with autocast(CPU, precision):
        state = model.begin(model.encode(source, source != 0), 1)
        state = state.select(torch.tensor([[0] * 5, [1] * 5]))
        for _ in range(2):
            model.step(token, state)
        with Operations(model) as operations:
            logits = model.project(model.step(token, state))
    return logits, operations


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_step_gives_exactly_what_autocast_gives(name: str) -> None:
    model = make(name)
    ours, expected = step(with_bf16_products(model))[0], step(model)[0]
    assert ours.dtype == expected.dtype == torch.bfloat16
    assert torch.equal(ours, expected)


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_weight_is_converted_at_a_step(name: str) -> None:
    model = make(name)
    plain, ours = step(model)[1], step(with_bf16_products(model))[1]
    assert plain.of_weights > 10
    assert ours.of_weights == 0
    assert ours.total == plain.total - plain.of_weights


def test_a_transformer_of_6_layers_converts_activations_only() -> None:
    model = make("transformer")
    counts = [step(each)[1] for each in (model, with_bf16_products(model))]
    # 18 inputs of products after a norm, weights of 12 attentions, the output, a mask
    assert [count.conversions for count in counts] == [105, 32]
    assert step(model, "fp32")[1].conversions == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_model_itself_stays_in_float32_and_shares_the_rest(name: str) -> None:
    model = make(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    twin = with_bf16_products(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    weights, shared = dict(model.named_parameters()), dict(twin.named_parameters())
    for key in ("source_embedding.tokens.weight", "target_embedding.tokens.weight"):
        if key in weights:
            assert shared[key] is weights[key]
    assert all(shared[key].dtype == torch.float32 for key in shared if "norm" in key)


@pytest.mark.parametrize("model", [TRANSFORMER, PERVASIVE], ids=["transformer", "pervasive"])
def test_scores_are_those_of_autocast(make_run: MakeRun, model: dict[str, Any]) -> None:
    run = Run.open(make_run(config={"model": model}))
    choices = replace(ON_CPU, precision="bf16", search={"beam": 4, "nbest": 4})
    translator = Translator.load([run], choices)
    sources = [translator.pipeline.source.encode(line) for line in LINES]
    with autocast(CPU, "bf16"):
        plain = translate_ids(translator.models, sources, translator.options)
    ours = translator.translate_nbest(LINES)
    for best, expected in zip(ours, plain, strict=True):
        # prepared forms multiply some weights beforehand, so they round differently and may choose
        # another of two translations of nearly the same score
        assert best[0].score == pytest.approx(expected[0].score, abs=0.02)
    assert all(weight.dtype == torch.float32 for weight in translator.models[0].parameters())


def test_a_model_without_a_prepared_form_translates_as_with_autocast(make_run: MakeRun) -> None:
    run = Run.open(make_run(config={"model": PERVASIVE}))
    translator = Translator.load([run], replace(ON_CPU, search={"beam": 4, "nbest": 4}))
    sources = [translator.pipeline.source.encode(line) for line in LINES]
    with autocast(CPU, "bf16"):
        expected = translate_ids(translator.models, sources, translator.options)
    models = [HalfPrecision(model) for model in translator.models]
    assert translate_ids(models, sources, translator.options) == expected
