"""Every system of the zoo at tiny sizes, variants of those known here, and a small batch.

A new system is picked up by itself, also an installed one: its sizes are found by the names of its
fields and in `TranslationModel.tiny`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from jtrans.config import SystemConfig
from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs

SOURCE_VOCABULARY, TARGET_VOCABULARY = 20, 24
SIZES = {"width": 16, "ffn_width": 32, "heads": 2}
PAD, EOS = 0, 1

ATTENTION_VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post"},
    "tie-decoder": {"tie": "decoder"},
    "tie-all": {"tie": "all"},
    "vaswani": {"position_layout": "vaswani"},
    "offset-2": {"position_offset": 2},
    "scale-positions": {"scale_positions": True},
}
JOINT_VARIANTS: dict[str, dict[str, Any]] = ATTENTION_VARIANTS | {
    "concat": {"grid": "concat"},
    "side-vectors": {"side_vectors": True},
    "max-reduction": {"reduction": "max"},
    "independent-dropout": {"grid_dropout": "independent"},
}
DENSE: dict[str, Any] = {"network": "dense", "positions": False}
GRID_VARIANTS: dict[str, dict[str, Any]] = {
    "max": {"aggregation": "max", "tie": "decoder"},
    "attention": {"aggregation": "attention", "position_offset": 2},
    "mean": {"aggregation": "mean", "positions": False},
    "dense": DENSE | {"aggregation": "max", "tie": "decoder"},
    "dense-max-attention": DENSE | {"aggregation": "max-attention"},
    "dense-scaled-mean": DENSE | {"aggregation": "scaled-mean", "tie": "all"},
}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "transformer": ATTENTION_VARIANTS | {"output-bias": {"output_bias": True}},
    "dlcl": {name: ATTENTION_VARIANTS[name] for name in ("post-norm", "tie-all")}
    | {"one": {"combination": "one"}},
    "transformer-pp": {name: ATTENTION_VARIANTS[name] for name in ("tie-all",)}
    | {
        "pre-norm": {"norm": "pre"},
        "centred": {"encoder_causal_conv": False},
        "long-kernels": {"kernels": (7, 4), "dilation": (1, 3)},
        "plain": {"plain_attention": "self", "encoder_layers": 3},
        "no-convolution": {"convolution": False},
        "tagging": {"pos_tags": 18, "ner_tags": 37},
    },
    "rnmt-plus": {
        "one-layer": {"encoder_layers": 1, "decoder_layers": 1},
        "one-head": {"heads": 1},
    },
    "hybrid": {
        "t2r": {"encoder": "transformer", "decoder": "rnmt"},
        "r2r": {"decoder": "rnmt", "rnmt_encoder_layers": 3},
        "t2t": {"encoder": "transformer", "output_bias": True},
        "cascade": {"encoder": "cascade", "decoder": "rnmt"},
        "cascade-positions": {"encoder": "cascade", "cascade_positions": True},
        "columns": {"encoder": "columns", "decoder": "rnmt", "rnmt_decoder_layers": 3},
        "columns-wide": {"encoder": "columns", "decoder": "rnmt", "project": False},
        "columns-transformer": {"encoder": "columns"},
    },
    "reformer-base": JOINT_VARIANTS,
    "reformer-fast": {name: JOINT_VARIANTS[name] for name in ("post-norm", "concat", "offset-2")},
    "pervasive": GRID_VARIANTS,
    "convs2s": {
        "tie-decoder": {"tie": "decoder"},
        "one-attention": {"attention": [2]},
        "residuals": {
            "encoder_layers": "(8, 3, 0), (24, 2, 2), (16, 1, 2), (16, 4)",
            "decoder_layers": "(8, 4), (24, 3, 0), (16, 2, 3), (16, 1)",
        },
    },
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in system_configs()} | {
    f"{system}/{variant}": (system, changes)
    for system, variants in VARIANTS.items()
    for variant, changes in variants.items()
}


def tiny_config(system: str, *, rate: float = 0.0, **changes: Any) -> SystemConfig:
    """Return a configuration with E 16, F 32, H 2, every depth 2 and every dropout `rate`."""
    model_class = system_configs().entry(system).model_class()
    config_class = model_class.Config
    values: dict[str, Any] = {}
    for name, field in config_class.model_fields.items():
        if name in SIZES:
            values[name] = SIZES[name]
        elif name.endswith("layers"):
            values[name] = 2
        elif name.endswith("dropout") and isinstance(field.default, float):
            values[name] = rate
    return config_class(**(values | dict(model_class.tiny) | changes))


def tiny_model(system: str, **changes: Any) -> TranslationModel:
    """Return a float64 model in evaluation mode."""
    config = tiny_config(system, **changes)
    is_joint_vocabulary = changes.get("tie") == "all"
    source = TARGET_VOCABULARY if is_joint_vocabulary else SOURCE_VOCABULARY
    return build_model(config, source, TARGET_VOCABULARY).double().eval()


def tiny_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Return a batch of sentences that end in EOS, padded on the right."""

    def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
        length = max(map(len, rows))
        return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])

    source, target = padded(sources), padded(targets)
    target_in = padded([[EOS, *row[:-1]] for row in targets])
    indices = torch.arange(len(sources))
    return Batch(source, source != PAD, target_in, target, target != PAD, indices)


@pytest.fixture(params=list(CASES.values()), ids=list(CASES), scope="module")
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A system's name and what is changed in its tiny configuration."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(case: tuple[str, dict[str, Any]]) -> TranslationModel:
    """A model of every system and variant. Shared between tests, which must not change it."""
    torch.manual_seed(1)
    return tiny_model(case[0], **case[1])


@pytest.fixture(params=list(system_configs()))
def system(request: pytest.FixtureRequest) -> str:
    """Name every system of the zoo."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def build() -> Callable[..., TranslationModel]:
    """Return the function that builds a fresh tiny model: ``build("transformer", rate=0.1)``."""
    return tiny_model


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Return the function that pads lists of token ids to a batch."""
    return tiny_batch


@pytest.fixture(scope="session")
def batch() -> Batch:
    """Three sentences of different lengths on both sides."""
    sources = [[5, 9, 12, 4, 7, EOS], [8, 3, 11, EOS], [6, EOS]]
    targets = [[7, 4, 19, EOS], [10, 22, 5, 13, 8, 4, EOS], [21, EOS]]
    return tiny_batch(sources, targets)
