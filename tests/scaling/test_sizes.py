"""What systems declare of their depth and width, and configurations of other sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from jtrans.config import Config, LayerStack, ScalableSizes, build_config
from jtrans.errors import ConfigError
from jtrans.models.systems import TransformerConfig
from jtrans.models.zoo import build_model, system_configs
from jtrans.scaling.sizes import ffn_width, layer_counts, resized, stack_sizes, width_ratio
from jtrans.scaling.solve import layer_parameters

E, F = 64, 256
SYSTEMS: dict[str, dict[str, Any]] = {
    "transformer": {"encoder_layers": 2, "decoder_layers": 3},
    "dlcl": {"encoder_layers": 2, "decoder_layers": 2},
    "transformer-pp": {"encoder_layers": 2, "decoder_layers": 2, "convolution": False},
    "reformer-base": {"layers": 2},
    "reformer-base concat": {"layers": 2, "grid": "concat"},
    "reformer-fast": {"layers": 2, "prenet_layers": 3},
    "reformer-fast bare": {"layers": 2, "prenet_layers": 0},
    "pervasive": {"layers": 2, "channels": E, "kernel": 11},
}


def config_of(name: str, **more: Any) -> Config:
    model = {"system": name.split()[0], "width": E, "ffn_width": F, **SYSTEMS[name], **more}
    return build_config({"model": model}, system_configs(), where="test")


def parameters(config: Config) -> int:
    with torch.device("meta"):
        return build_model(config.model, 16, 16).parameter_count()


@pytest.mark.parametrize("name", SYSTEMS)
def test_declared_parameters_are_those_that_depth_and_width_really_add(name: str) -> None:
    base = config_of(name)
    size = layer_parameters(stack_sizes(base), width_ratio(base))
    for larger in (resized(base, more_layers=2), resized(base, more_width=3)):
        declared = layer_parameters(stack_sizes(larger), width_ratio(larger)) - size
        added = parameters(larger) - parameters(base)
        assert declared * E**2 == pytest.approx(added, rel=0.05)  # norms and biases


def test_every_stack_gets_the_same_layers_and_the_width_grows_by_multiples() -> None:
    larger = resized(config_of("reformer-fast"), more_layers=2, more_width=1)
    assert layer_counts(larger) == {"layers": 4, "prenet_layers": 5}
    assert ffn_width(larger) == F + E
    assert larger.model.width == E


@pytest.mark.parametrize("system", ["rnmt-plus", "convs2s", "hybrid"])
def test_a_system_without_depth_and_width_is_refused(system: str) -> None:
    config = build_config({"model": {"system": system}}, system_configs(), where="test")
    with pytest.raises(ConfigError) as caught:
        resized(config)
    assert caught.value.kind == "scaling.no-depth"
    assert "reformer-fast" in str(caught.value.hint)


def test_expected_scores_are_not_those_of_other_sizes() -> None:
    model = {"system": "transformer", **SYSTEMS["transformer"]}
    band = {"metric": "bleu", "low": 1.0, "high": 2.0}
    values = {"model": model, "expect": {"test": band}}
    base = build_config(values, system_configs(), where="test")
    assert base.expect
    assert resized(base).expect == {}


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        (ScalableSizes((LayerStack("depth", 4, 2),)), "the setting depth"),
        (ScalableSizes((LayerStack("encoder_layers", 4, 2),), ffn_width="F"), "the setting F"),
        (ScalableSizes(()), "no stack of layers with FFNs"),
        (ScalableSizes(LayerStack("encoder_layers", 4, 2)), "stacks that are not a tuple"),  # type: ignore[arg-type]
        (ScalableSizes((LayerStack("encoder_layers", 4, 0),)), "no stack of layers with FFNs"),
        (ScalableSizes((LayerStack("encoder_layers", -4, 2),)), "no stack of layers with FFNs"),
    ],
)
def test_a_system_that_declares_what_it_does_not_have_is_told_so(
    sizes: ScalableSizes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("transformer")
    monkeypatch.setattr(TransformerConfig, "scalable_sizes", property(lambda _: sizes))
    with pytest.raises(ConfigError, match=f"transformer declares {fault}"):
        stack_sizes(config)
