"""Numbers of trainable parameters (docs/systems.md 1.3, 2.7, 3.2 and 12; property G8).

Models are built on the device ``meta``, which has shapes and no numbers.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jtrans.config import load_config
from jtrans.models.base import TranslationModel
from jtrans.models.systems import HybridConfig
from jtrans.models.zoo import SYSTEMS, build_model, system_configs
from jtrans.training.weights.initial import freeze

Build = Callable[..., TranslationModel]

BASE = {"width": 512, "ffn_width": 2048, "heads": 8}
BIG = {"width": 1024, "ffn_width": 4096, "heads": 16}
SMALL = {"width": 256, "ffn_width": 1024, "heads": 4}
UNTAGGED = {"pos_tags": 0, "ner_tags": 0}
MIXED_TINY = {"width": 16, "ffn_width": 32, "heads": 2, "kernels": (3, 5)}
MIXED_TINY |= {"encoder_layers": 2, "decoder_layers": 2}
JOINT, WMT = (37_000, 37_000), (32_000, 32_000)
DEEP = {"width": 512, "ffn_width": 2048, "heads": 8, "tie": "all"}
DEEP_WMT = (34_040, 34_040)
STUDY = {"width": 1024, "ffn_width": 8192, "heads": 16, "output_bias": True}
DE_EN, EN_DE = (8_848, 6_632), (6_632, 8_848)
VI_EN, ZH_EN = (7_709, 17_191), (40_448, 36_096)
DENSE = {"network": "dense", "layers": 24, "width": 128, "channels": 128, "growth": 32}
DENSE |= {"positions": False, "aggregation": "max", "tie": "decoder"}
GRID = {"width": 16, "channels": 16, "ffn_width": 32, "layers": 2, "kernel": 3}

# the values marked * in docs/systems.md 12 were confirmed by building the reference implementation
COUNTS: dict[str, tuple[str, dict[str, Any], tuple[int, int], int]] = {
    "base": ("transformer", BASE | {"norm": "post", "tie": "all"}, JOINT, 63_082_496),
    "base-pre": ("transformer", BASE | {"tie": "all"}, JOINT, 63_084_544),
    "big": ("transformer", BIG | {"norm": "post", "tie": "all"}, JOINT, 214_245_376),
    "big-pre": ("transformer", BIG | {"tie": "all"}, JOINT, 214_249_472),
    "base-rnmt-study": ("transformer", BASE | {"output_bias": True}, WMT, 93_324_544),
    "big-8k": (
        "transformer",
        BIG | {"ffn_width": 8192, "output_bias": True},
        WMT,
        375_409_920,
    ),
    "iwslt": ("transformer", SMALL, DE_EN, 16_720_896),
    "iwslt-post": ("transformer", SMALL | {"norm": "post"}, DE_EN, 16_719_872),
    "iwslt-tied": ("transformer", SMALL | {"tie": "decoder"}, DE_EN, 15_023_104),
    "iwslt-en-de": ("transformer", SMALL, EN_DE, 17_288_192),
    "iwslt-scaled": ("transformer", SMALL | {"width": 512}, DE_EN, 42_866_688),
    "vi-en": ("transformer", SMALL, VI_EN, 21_835_520),
    "nist": ("transformer", BASE, ZH_EN, 101_812_224),
    "nist-big": ("transformer", BIG, ZH_EN, 291_704_832),
    "deep-post-base": ("transformer", DEEP | {"norm": "post"}, DEEP_WMT, 61_566_976),
    "deep-pre-20": ("transformer", DEEP | {"encoder_layers": 20}, DEEP_WMT, 105_702_400),
    "dlcl-post-6": ("dlcl", DEEP | {"norm": "post"}, DEEP_WMT, 61_579_320),
    "dlcl-pre-6": ("dlcl", DEEP, DEEP_WMT, 61_581_368),
    "dlcl-post-25": ("dlcl", DEEP | {"norm": "post", "encoder_layers": 25}, DEEP_WMT, 121_494_395),
    "dlcl-pre-30": ("dlcl", DEEP | {"encoder_layers": 30}, DEEP_WMT, 137_263_628),
    "dlcl-tiny-3-2": (
        "dlcl",
        {"width": 16, "ffn_width": 32, "heads": 2, "encoder_layers": 3, "decoder_layers": 2},
        (20, 24),
        14_688,
    ),
    "mixed-base": ("transformer-pp", BASE | {"tie": "all"} | UNTAGGED, JOINT, 63_142_912),
    "mixed-base-tagging": ("transformer-pp", BASE | {"tie": "all"}, JOINT, 63_171_127),
    "mixed-base-plain": (
        "transformer-pp",
        BASE | {"tie": "all", "plain_attention": "self"} | UNTAGGED,
        JOINT,
        63_115_264,
    ),
    "mixed-base-plain-tagging": (
        "transformer-pp",
        BASE | {"tie": "all", "plain_attention": "self"},
        JOINT,
        63_143_479,
    ),
    "mixed-big": ("transformer-pp", BIG | {"tie": "all"} | UNTAGGED, JOINT, 214_366_208),
    "mixed-big-tagging": ("transformer-pp", BIG | {"tie": "all"}, JOINT, 214_422_583),
    "mixed-iwslt": ("transformer-pp", SMALL | UNTAGGED, DE_EN, 16_750_080),
    "mixed-iwslt-tagging": ("transformer-pp", SMALL, DE_EN, 16_764_215),
    "mixed-tiny": ("transformer-pp", MIXED_TINY | UNTAGGED, (20, 24), 12_352),
    "mixed-tiny-tagging": ("transformer-pp", MIXED_TINY, (20, 24), 13_287),
    "rnmt-plus": ("rnmt-plus", {"width": 1024}, WMT, 378_866_176),
    "rnmt-plus-iwslt": ("rnmt-plus", {}, DE_EN, 22_881_576),
    "rnmt-plus-iwslt-small": (
        "rnmt-plus",
        {"encoder_layers": 3, "decoder_layers": 4},
        DE_EN,
        14_996_776,
    ),
    "rnmt-plus-tiny": (
        "rnmt-plus",
        {"width": 16, "heads": 2, "encoder_layers": 3, "decoder_layers": 3},
        (20, 24),
        29_456,
    ),
    "hybrid-t2r": ("hybrid", STUDY, WMT, 359_998_976),
    "hybrid-r2t": (
        "hybrid",
        STUDY | {"encoder": "rnmt", "decoder": "transformer"},
        WMT,
        394_279_168,
    ),
    "hybrid-cascade": ("hybrid", STUDY | {"encoder": "cascade"}, WMT, 462_825_984),
    "hybrid-columns": ("hybrid", STUDY | {"encoder": "columns"}, WMT, 539_670_016),
    "hybrid-t2r-iwslt": ("hybrid", SMALL, DE_EN, 18_551_848),
    "hybrid-r2t-iwslt": (
        "hybrid",
        SMALL | {"encoder": "rnmt", "decoder": "transformer"},
        DE_EN,
        21_051_136,
    ),
    "hybrid-cascade-iwslt": ("hybrid", SMALL | {"encoder": "cascade"}, DE_EN, 26_041_640),
    "hybrid-columns-iwslt": ("hybrid", SMALL | {"encoder": "columns"}, DE_EN, 30_017_576),
    "joint-iwslt": ("reformer-base", SMALL, DE_EN, 16_783_872),
    "joint-iwslt-tied": ("reformer-base", SMALL | {"tie": "decoder"}, DE_EN, 15_086_080),
    "joint-en-de": ("reformer-base", SMALL, EN_DE, 17_351_168),
    "joint-vi-en": ("reformer-base", SMALL, VI_EN, 21_898_496),
    "joint-nist": ("reformer-base", BASE, ZH_EN, 102_069_248),
    "fast-iwslt": ("reformer-fast", SMALL, DE_EN, 17_574_144),
    "fast-scaled": (
        "reformer-fast",
        SMALL | {"ffn_width": 1536, "layers": 7, "prenet_layers": 7},
        DE_EN,
        27_828_480,
    ),
    "fast-en-de": ("reformer-fast", SMALL, EN_DE, 18_141_440),
    "fast-vi-en": ("reformer-fast", SMALL, VI_EN, 22_688_768),
    "fast-nist": ("reformer-fast", BASE, ZH_EN, 105_222_656),
    "pervasive-iwslt": ("pervasive", {"tie": "decoder"}, DE_EN, 13_014_504),
    "pervasive-2018-max": ("pervasive", DENSE | {"kernel": 5}, DE_EN, 6_493_800),
    "pervasive-2018-max-3": ("pervasive", DENSE | {"kernel": 3}, DE_EN, 4_920_936),
    "pervasive-2018-attention": (
        "pervasive",
        DENSE | {"kernel": 5, "aggregation": "max-attention"},
        DE_EN,
        6_551_593,
    ),
    "pervasive-tiny-tied": ("pervasive", GRID | {"tie": "decoder"}, (20, 24), 5_080),
    "pervasive-tiny": ("pervasive", GRID, (20, 24), 5_464),
    "fast-nist-scaled": (
        "reformer-fast",
        BASE | {"ffn_width": 3072, "layers": 7, "prenet_layers": 7},
        ZH_EN,
        146_178_560,
    ),
}
CONVOLUTIONS = {"width": 768, "output_width": 512}
WMT_40 = (40_000, 40_000)
EN_DE_STACK = "9 x (512, 3), 4 x (1024, 3), 2 x (2048, 1)"
EN_FR_STACK = "6 x (512, 3), 4 x (768, 3), 3 x (1024, 3), (2048, 1), (4096, 1)"
COUNTS |= {
    "convs2s-iwslt": ("convs2s", {}, DE_EN, 9_618_384),
    "convs2s-en-de": (
        "convs2s",
        CONVOLUTIONS | {"encoder_layers": EN_DE_STACK, "decoder_layers": EN_DE_STACK},
        WMT_40,
        209_569_920,
    ),
    "convs2s-en-fr": (
        "convs2s",
        CONVOLUTIONS | {"encoder_layers": EN_FR_STACK, "decoder_layers": EN_FR_STACK},
        WMT_40,
        258_111_616,
    ),
    "convs2s-tiny": (
        "convs2s",
        {
            "width": 16,
            "output_width": 16,
            "positions": 64,
            "encoder_layers": [[16, 3], [16, 3]],
            "decoder_layers": [[16, 3], [16, 3]],
        },
        (20, 24),
        11_888,
    ),
}
TINY = {
    "transformer": 12_288,
    "dlcl": 12_428,
    "transformer-pp": 12_320,
    "reformer-base": 10_304,
    "reformer-fast": 14_784,
}
VOCABULARIES = {
    "iwslt14-de-en": DE_EN,
    "iwslt14-en-de": EN_DE,
    "iwslt15-vi-en": VI_EN,
    "nist-zh-en": ZH_EN,
}
RECIPES = {
    "iwslt14-de-en/transformer": "iwslt",
    "iwslt14-de-en/transformer-scaled": "iwslt-scaled",
    "iwslt14-de-en/reformer-base": "joint-iwslt",
    "iwslt14-de-en/reformer-fast": "fast-iwslt",
    "iwslt14-de-en/reformer-fast-scaled": "fast-scaled",
    "iwslt14-de-en/pervasive": "pervasive-iwslt",
    "iwslt14-de-en/pervasive-2018-max": "pervasive-2018-max",
    "iwslt14-de-en/pervasive-2018-attention": "pervasive-2018-attention",
    "iwslt14-en-de/transformer": "iwslt-en-de",
    "iwslt14-en-de/reformer-base": "joint-en-de",
    "iwslt14-en-de/reformer-fast": "fast-en-de",
    "iwslt15-vi-en/transformer": "vi-en",
    "iwslt15-vi-en/reformer-base": "joint-vi-en",
    "iwslt15-vi-en/reformer-fast": "fast-vi-en",
    "nist-zh-en/transformer": "nist",
    "nist-zh-en/transformer-scaled": "nist-big",
    "nist-zh-en/reformer-base": "joint-nist",
    "nist-zh-en/reformer-fast": "fast-nist",
    "nist-zh-en/reformer-fast-scaled": "fast-nist-scaled",
}


@pytest.mark.parametrize(
    ("system", "changes", "vocabularies", "count"), COUNTS.values(), ids=list(COUNTS)
)
def test_a_published_setting_has_its_documented_size(
    system: str, changes: dict[str, Any], vocabularies: tuple[int, int], count: int
) -> None:
    config = SYSTEMS[system].config_class()(**changes)
    with torch.device("meta"):
        model = build_model(config, *vocabularies)
    assert model.parameter_count() == count


@pytest.mark.parametrize(("recipe", "setting"), RECIPES.items(), ids=list(RECIPES))
def test_a_recipe_builds_its_published_setting(recipe: str, setting: str) -> None:
    config = load_config(recipe, system_configs()).model
    with torch.device("meta"):
        model = build_model(config, *VOCABULARIES[recipe.partition("/")[0]])
    assert model.parameter_count() == COUNTS[setting][3]


@pytest.mark.parametrize(("name", "count"), TINY.items())
def test_a_tiny_setting_has_its_documented_size(name: str, count: int, build: Build) -> None:
    assert build(name).parameter_count() == count


def test_frozen_parameters_are_not_counted(build: Build) -> None:
    model = build("transformer")
    model.target_embedding.requires_grad_(False)
    assert model.parameter_count() == TINY["transformer"] - 24 * 16


def test_a_tied_matrix_is_counted_once(build: Build) -> None:
    for name, count in TINY.items():
        tied = build(name, tie="all").parameter_count()  # V_s 24 instead of 20, then two saved
        assert tied == count - (20 + 24 + 24) * 16 + 24 * 16


def test_options_of_the_grid_have_the_size_of_their_parts(build: Build) -> None:
    E, plain = 16, TINY["reformer-base"]
    assert build("reformer-base", side_vectors=True).parameter_count() == plain + 2 * E
    assert build("reformer-base", reduction="max").parameter_count() == plain - E * E
    assert build("reformer-base", norm="post").parameter_count() == plain - 2 * E  # no LN_r
    assert build("reformer-base", grid_dropout="independent").parameter_count() == plain


@pytest.mark.parametrize(
    ("settings", "vocabularies", "count"),
    [(STUDY, WMT, 285_255_168), (SMALL, DE_EN, 14_707_752)],
    ids=["wmt", "iwslt"],
)
def test_a_cascade_on_a_frozen_encoder_trains_the_published_number(
    settings: dict[str, Any], vocabularies: tuple[int, int], count: int
) -> None:
    config = HybridConfig(**settings, encoder="cascade")
    with torch.device("meta"):
        model = build_model(config, *vocabularies)
    freeze(model, ["encoder.rnmt.*"])
    assert model.parameter_count() == count  # H6
