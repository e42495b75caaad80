"""The FLOPs of training: counted at small lengths, exact at all, and what the equations say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from plugins.installed_systems import BringSystem
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from jtrans.bench.flops import training_flops
from jtrans.config import SystemConfig
from jtrans.models.base import Memory, TranslationModel
from jtrans.models.reformer import Reformer
from jtrans.models.zoo import build_model, system_configs
from jtrans.nn.recurrent.lstm import DirectionWeights

V, S, T = 32, 19, 17


def count(model: TranslationModel, source: Tensor, target: Tensor) -> int:
    """Count the FLOPs of a forward and a backward pass."""
    with FlopCounterMode(display=False) as counter:
        memory = model.encode(source, source > 0)
        model.project(model.decode(target, memory)).sum().backward()
    return int(counter.get_total_flops())


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.int64)


SMALL = {
    "transformer": {"heads": 2, "norm": "post", "encoder_layers": 1, "decoder_layers": 1},
    "reformer-base": {"heads": 2, "layers": 1, "grid": "concat", "side_vectors": True},
    "reformer-fast": {"heads": 2, "layers": 1, "prenet_layers": 1, "reduction": "max"},
    "mine": {},
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("system", SMALL)
def test_lengths_that_were_not_counted_take_what_is_predicted(
    system: str, bring_system: BringSystem
) -> None:
    bring_system()
    config = system_configs()[system].model_validate(
        {"system": system, "width": 16, **SMALL[system]}
    )
    with torch.device("meta"):
        counted = count(build_model(config, V, V), ones(1, S), ones(1, T))
    assert training_flops(config, V, V)([S], [T]) == pytest.approx(counted, rel=1e-6)


def test_recurrent_operators_are_counted() -> None:
    values = {"system": "rnmt-plus", "width": 16, "heads": 2}
    config = system_configs()["rnmt-plus"].model_validate(values)
    modules = build_model(config, V, V).modules()
    weights = [each.weight.numel() for each in modules if isinstance(each, DirectionWeights)]
    assert weights and training_flops(config, V, V)([S], [S]) > 3 * 2 * S * sum(weights)


def test_a_batch_takes_what_its_pairs_take(make_config: Any) -> None:
    config = make_config("transformer", {"norm": "post", "tie": "none"}).model
    flops = training_flops(config, V, V)
    # post-norm layers have no second form for training on a CPU, which would compute more
    assert flops([9] * 3, [7] * 3) == pytest.approx(
        count(build_model(config, V, V), ones(3, 9), ones(3, 7)), rel=1e-6
    )
    assert flops([5, 9], [4, 7]) == pytest.approx(flops([5], [4]) + flops([9], [7]))


def test_a_joint_layer_takes_what_its_equations_say() -> None:
    # 48 E^2 + 4 (S + T) E for each position, of which 2 (T - 1) E are causally zero
    values = {"system": "reformer-base", "width": 256, "layers": 2, "reduction": "max"}
    values |= {"ffn_width": 1024, "heads": 4}
    config = system_configs()["reformer-base"].model_validate(values)
    without_output = training_flops(config, V, V)([S], [T]) - 3 * T * 2 * 256 * V
    position = 2 * (48 * 256**2 + 4 * (S + T) * 256)
    assert without_output / (S * T) == pytest.approx(3 * position, rel=1e-6)


def test_a_transformer_takes_what_its_equations_say() -> None:
    E, F, V_t = 64, 256, 90
    values = {"width": E, "ffn_width": F, "encoder_layers": 1, "decoder_layers": 2}
    config = system_configs()["transformer"].model_validate({"system": "transformer", **values})
    encoder = S * (8 * E**2 + 4 * E * F + 4 * S * E)
    decoder = T * (8 * E**2 + 4 * T * E + 4 * E**2 + 4 * S * E + 4 * E * F) + S * 4 * E**2
    forward = encoder + 2 * decoder + T * 2 * E * V_t
    assert training_flops(config, V, V_t)([S], [T]) == pytest.approx(3 * forward, rel=1e-6)


def test_a_model_that_looks_at_values_is_counted_on_the_cpu(
    make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: SystemConfig = make_config("reformer-base", {"norm": "post"}).model
    expected = training_flops(config, V, V)([S], [T])
    encode = Reformer.encode

    def look(self: Reformer, source: Tensor, source_mask: Tensor) -> Memory:
        assert int(source_mask.sum(1).max()) > 0
        return encode(self, source, source_mask)

    monkeypatch.setattr(Reformer, "encode", look)
    training_flops.cache_clear()
    # there the Reduction is computed twice, to save memory
    assert training_flops(config, V, V)([S], [T]) == pytest.approx(expected, rel=0.02)
