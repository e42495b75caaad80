"""Settings of parts that a model does not have are named, and no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jtrans.config import SystemConfig
from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel, check_agreement
from jtrans.models.systems import HybridConfig, TransformerPlusPlusConfig

# for each system: models that have other parts
MODELS: dict[str, list[dict[str, Any]]] = {
    "hybrid": [
        {"encoder": encoder, "decoder": decoder}
        for encoder, decoder in itertools.product(
            ("transformer", "rnmt", "cascade", "columns"), ("transformer", "rnmt")
        )
    ]
    + [
        {"encoder": "cascade", "decoder": "rnmt", "n_cascade": 0},
        {"encoder": "cascade", "decoder": "rnmt", "n_cascade": 0, "cascade_positions": True},
    ],
    "transformer-pp": [
        {"encoder_layers": 3, "pos_tags": 3, "ner_tags": 3},
        {"encoder_layers": 3, "convolution": False},
        {"ner_tags": 3},
    ],
    "pervasive": [{}, {"network": "dense", "positions": False, "aggregation": "max"}],
}
# and other values of every setting that some of them do not use
OTHER: dict[str, dict[str, Any]] = {
    "hybrid": {
        "encoder_layers": 3,
        "decoder_layers": 3,
        "ffn_width": 8,
        "heads": 4,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "output_bias": True,
        "rnmt_encoder_layers": 3,
        "rnmt_decoder_layers": 3,
        "rnmt_heads": 4,
        "rnmt_dropout": 0.1,
        "rnmt_attention_dropout": 0.1,
        "rnmt_initial_range": 0.1,
        "n_cascade": 1,
    },
    "transformer-pp": {
        "kernels": (5,),
        "dilation": 3,
        "kernel_dropout": 0.1,
        "plain_attention": "self",
        "encoder_causal_conv": False,
        "pos_weight": 0.2,
        "ner_weight": 0.2,
    },
    "pervasive": {"growth": 4, "ffn_width": 8, "position_offset": 3},
}
CASES = [
    pytest.param(system, settings, id=f"{system} {' '.join(map(str, settings.values()))}")
    for system, all_settings in MODELS.items()
    for settings in all_settings
]
Build = Callable[..., TranslationModel]


def computed(model: TranslationModel, batch: Batch) -> tuple[Any, ...]:
    """Return what identifies the training of a model with a seed."""
    torch.manual_seed(2)
    memory = model.train().encode(batch.source, batch.source_mask)
    logits = model.project(model.decode(batch.target_in, memory))
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    return shapes, logits.tolist(), model.auxiliary_weights


@pytest.mark.parametrize(("system", "settings"), CASES)
def test_exactly_the_settings_without_effect_are_named(
    build: Build, batch: Batch, system: str, settings: dict[str, Any]
) -> None:
    def outcome(**changes: Any) -> tuple[Any, ...]:
        torch.manual_seed(1)
        return computed(build(system, rate=0.3, **settings | changes), batch)

    expected, other = outcome(), OTHER[system]
    unused = {name for name, value in other.items() if outcome(**{name: value}) == expected}
    assert build(system, **settings).config.unused() == unused


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (HybridConfig(encoder="rnmt"), HybridConfig(encoder="rnmt", encoder_layers=11, heads=8)),
        (
            TransformerPlusPlusConfig(convolution=False),
            TransformerPlusPlusConfig(convolution=False, kernels=(5,), plain_attention="self"),
        ),
    ],
)
def test_models_agree_that_differ_in_settings_without_effect(
    there: SystemConfig, here: SystemConfig
) -> None:
    check_agreement(there, here)
    check_agreement(here, there)


@pytest.mark.parametrize(
    ("system", "settings"),
    [
        ("hybrid", {"encoder": "transformer", "width": 30, "heads": 5, "rnmt_heads": 4}),
        ("hybrid", {"encoder": "rnmt", "width": 30, "heads": 5, "rnmt_heads": 4}),
        ("hybrid", {"decoder": "rnmt", "width": 15, "heads": 4, "rnmt_heads": 5}),
        (
            "transformer-pp",
            {"convolution": False, "encoder_causal_conv": False, "kernels": (4,), "heads": 1},
        ),
    ],
)
def test_settings_without_effect_need_not_be_possible(
    build: Build, batch: Batch, system: str, settings: dict[str, Any]
) -> None:
    assert computed(build(system, **settings), batch)
