"""The layer and the sentences that make an update not finite are found, and nothing changes."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from jtrans.data.ids import IdStore, ParallelIds
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import SYSTEMS, build_model, system_configs
from jtrans.nn.layer import Layer, set_recompute
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.first_fault import FirstFault
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.divergence.skips import Skips
from jtrans.training.divergence.trace import Attempt, Cause, Tracer
from jtrans.training.divergence.trouble import Trouble
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective
from jtrans.training.updates import MicroBatch

RARE = 39  # a token of the source
SENTENCES = 40


def make_model(system: str, **changes: Any) -> TranslationModel:
    config_class = system_configs()[system]
    fields = config_class.model_fields
    sizes: dict[str, Any] = {"width": 16, "ffn_width": 32, "heads": 2, "dropout": 0.1}
    numbers = [name for name in fields if isinstance(fields[name].default, int)]
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("layers")), 2)
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("_tags")), 0)
    values = {name: size for name, size in {**sizes, **changes}.items() if name in fields}
    return build_model(config_class(system=system, **values), 40, 40).train()


def make_pairs(poisoned: Sequence[int]) -> ParallelIds:
    """Return pairs of which the `poisoned` ones have the rare token."""
    draw = random.Random(1)

    def store(is_source: bool) -> IdStore:
        sentences = [[draw.randrange(4, 30) for _ in range(2 + i % 5)] for i in range(SENTENCES)]
        for index in poisoned if is_source else ():
            sentences[index][1] = RARE
        offsets = np.cumsum([0, *(len(each) + 1 for each in sentences)])
        return IdStore(np.array([i for each in sentences for i in [*each, 1]], np.int32), offsets)

    return ParallelIds(store(True), store(False))


def poison(model: TranslationModel, value: float = math.nan) -> None:
    """Make the vector of the rare token infinite or nan."""
    for name, parameter in model.named_parameters():
        if name.endswith(("source_embedding.tokens.weight", "encoder.embedding.weight")) or (
            name == "encoder.transformer.embedding.tokens.weight"
        ):
            parameter.data[RARE] = value
            return
    raise AssertionError("no source embedding")


def accumulator(model: TranslationModel, **settings: Any) -> GradientAccumulator:
    return GradientAccumulator(model, Objective(0.1), precision="fp32", **settings)


def attempt_of(pairs: ParallelIds, *micro_batches: MicroBatch) -> Attempt:
    return Attempt(1, UpdateLoss(pairs, 100), micro_batches, RandomState.of(torch.device("cpu")))


def trace(model: TranslationModel, poisoned: Sequence[int], **settings: Any) -> Cause:
    pairs = make_pairs(poisoned)
    order = np.arange(SENTENCES)
    parts = order[:17], order[17:]
    tracer = Tracer(accumulator(model, **settings), lambda update, indices: None)
    return tracer.trace(attempt_of(pairs, *parts))


@pytest.mark.sample(3)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_sentence_and_the_layer_are_named(system: str) -> None:
    model = make_model(system)
    poison(model)
    cause = trace(model, [23])
    assert (cause.sentences, cause.computed, cause.rest) == ((23,), 23, 39)
    assert cause.is_rest_finite
    assert "embedding" in cause.layer


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_finite_update_has_no_cause(system: str) -> None:
    cause = trace(make_model(system), [23])
    assert (cause.layer, cause.sentences, cause.is_rest_finite) == ("", (), True)


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_module_of_a_healthy_model_seems_at_fault(system: str) -> None:
    model, first = make_model(system), FirstFault()
    with first.watching(model):
        accumulator(model).accumulate(UpdateLoss(make_pairs([]), 100), [np.arange(SENTENCES)])
    assert first.place is None


@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_the_output_is_named_if_it_is_at_fault(system: str) -> None:
    model, first = make_model(system), FirstFault()
    with torch.no_grad():
        model.get_submodule("output").weight[5] = torch.inf  # type: ignore[operator]
    with first.watching(model):
        accumulator(model).accumulate(UpdateLoss(make_pairs([]), 100), [np.arange(SENTENCES)])
    assert first.place == "output"
    assert model.output_weights() is not None


@pytest.mark.parametrize("settings", [{"r_drop": 5.0}, {"word_dropout": 0.01}])
def test_several_sentences_are_named_with_every_regulariser(settings: dict[str, float]) -> None:
    model = make_model("transformer")
    poison(model)
    cause = trace(model, [3, 5, 30], **settings)
    assert (cause.sentences, cause.is_rest_finite) == ((3, 5, 30), True)


@pytest.mark.parametrize("settings", [{"r_drop": 5.0, "cutoff": 0.5}, {"word_dropout": 0.9}])
def test_a_model_that_is_not_trained_reads_its_sentences_as_they_are(
    settings: dict[str, float],
) -> None:
    model = make_model("transformer")
    poison(model)
    model.eval()  # as for validation
    cause = trace(model, [3, 30], **settings)
    assert (cause.sentences, cause.is_rest_finite) == ((3, 30), True)


@pytest.mark.parametrize("recompute", ["hidden", "layer"])
def test_recomputed_layers_are_named(recompute: str) -> None:
    model = make_model("reformer-fast")
    set_recompute(model, recompute)  # type: ignore[arg-type]
    poison(model)
    assert trace(model, [0]).sentences == (0,)


@pytest.mark.parametrize(("update", "is_left_out"), [([23, 24], True), ([23], False)])
def test_a_sentence_is_left_out_only_if_as_many_others_are_finite(
    update: list[int], is_left_out: bool
) -> None:
    model = make_model("transformer")
    poison(model)
    skips = Skips(accumulator(model), Ranks(), seed=1)
    skips.remember(attempt_of(make_pairs([23]), np.array(update)))
    skip = skips.explain(1, "the loss is nan", Trouble())
    assert (skip.sentences, skip.left_out) == ((23,), is_left_out)


def test_compiled_layers_run_as_they_are_written_and_are_compiled_again() -> None:
    model = make_model("transformer")

    def refuse(*_: Any, **__: Any) -> torch.Tensor:
        raise AssertionError("a compiled layer calls no hooks")

    layers = [each for each in model.modules() if isinstance(each, Layer)]
    for layer in layers:
        layer.compiled = refuse
    poison(model)
    assert trace(model, [7]).sentences == (7,)
    assert all(layer.compiled is refuse for layer in layers)


def test_weights_that_are_not_finite_are_no_fault_of_sentences() -> None:
    model = make_model("transformer")
    dict(model.named_parameters())["output.weight"].data.fill_(math.inf)
    cause = trace(model, [])
    assert not cause.is_rest_finite
    assert len(cause.sentences) == cause.computed == 17  # all of the first micro-batch
    assert cause.layer == "output" or cause.layer == "the loss"


def test_a_gradient_alone_is_named_by_its_parameter() -> None:
    model = make_model("transformer")
    name = "encoder.layers.0.feed_forward.inner.weight"
    weight = model.get_parameter(name)
    weight.register_hook(lambda gradient: torch.full_like(gradient, math.inf))
    assert trace(model, []).layer == f"the gradient of {name}"


@pytest.mark.parametrize(
    "changes", [{}, {"network": "dense", "aggregation": "max"}], ids=["plain", "dense"]
)
def test_nothing_of_training_changes(changes: dict[str, Any]) -> None:
    model = make_model("pervasive" if changes else "transformer", **changes)
    poison(model)
    calculation = accumulator(model)
    calculation.limits.fail(3000, 9)
    limits, before = copy.deepcopy(calculation.limits), copy.deepcopy(model.state_dict())
    generators = torch.get_rng_state(), random.getstate()
    tracer = Tracer(calculation, lambda update, indices: None)
    assert tracer.trace(attempt_of(make_pairs([3]), np.arange(20))).sentences
    assert calculation.limits == limits
    assert torch.equal(torch.get_rng_state(), generators[0]) and random.getstate() == generators[1]
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value.nan_to_num(7.0), before[name].nan_to_num(7.0))


def test_the_dropout_of_the_update_is_drawn_again() -> None:
    """The layer sees the masks that the update had, though others were drawn since."""
    model = make_model("transformer")
    seen: list[torch.Tensor] = []
    model.get_submodule("encoder.layers.0").register_forward_hook(
        lambda module, inputs, output: seen.append(output.detach().clone())
    )
    pairs = make_pairs([])
    attempt = attempt_of(pairs, np.arange(SENTENCES))
    calculation = accumulator(model)
    calculation.accumulate(attempt.loss, attempt.micro_batches)
    model.zero_grad()
    torch.rand(100)
    Tracer(calculation, lambda update, indices: None).trace(attempt)
    assert torch.equal(seen[0], seen[1])
