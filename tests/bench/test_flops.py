"""The FLOPs of training, counted by torch itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from jtrans.bench.flops import training_flops
from jtrans.models.zoo import build_model
from jtrans.nn import residual

V, B, S, T = 32, 3, 9, 7


@pytest.mark.parametrize("system", ["transformer", "reformer-base", "reformer-fast"])
def test_the_formula_is_what_a_pass_takes(
    system: str, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        residual, "is_blockwise", lambda *_, **__: False
    )  # it computes weights twice
    config = make_config(system).model
    model = build_model(config, V, V)
    source, target = torch.randint(4, V, (B, S)), torch.randint(4, V, (B, T))
    with FlopCounterMode(display=False) as counter:
        memory = model.encode(source, torch.ones(B, S, dtype=torch.bool))
        model.project(model.decode(target, memory)).sum().backward()  # type: ignore[no-untyped-call]
    E = config.width
    # the formula leaves out the causally zero half of target attention and of the decoder's own
    lines = 1 if system == "transformer" else S
    unseen = 3 * B * lines * 4 * E * (T * T - T * (T + 1) / 2)
    expected = counter.get_total_flops() - unseen
    assert training_flops(config, [S] * B, [T] * B, V) == pytest.approx(expected, rel=0.02)


def test_pairs_add_up(make_config: Any) -> None:
    config = make_config("reformer-fast").model
    both = training_flops(config, [5, 9], [4, 7], V)
    assert both == training_flops(config, [5], [4], V) + training_flops(config, [9], [7], V)


def test_a_layer_of_the_plan_s_size_takes_what_the_plan_says(make_config: Any) -> None:
    # 48 E^2 + 4 S E + 2 (T + 1) E for each position of a joint layer, three times for training
    sizes = {"width": 256, "ffn_width": 1024, "heads": 4, "reduction": "max"}
    config = make_config("reformer-base", sizes).model
    found = training_flops(config, [25], [25], 0) / 625
    assert found == 3 * (48 * 256**2 + 4 * 25 * 256 + 2 * 26 * 256)
