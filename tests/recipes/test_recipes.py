"""The recipes: all load, and have the sizes that were published for them."""

from __future__ import annotations

import re
import tomllib

import pytest
import torch

from jtrans.cli.recipes import description, recipe_text
from jtrans.config import RECIPES, build_config, load_config, recipe_names
from jtrans.corpora.catalogue.load import find_entry
from jtrans.models.zoo import build_model, system_configs

SYSTEMS = ["transformer", "transformer-scaled", "reformer-base", "reformer-fast"]
SYSTEMS += ["reformer-fast-scaled"]
CORPORA = ["iwslt14-de-en", "iwslt14-en-de", "iwslt15-vi-en", "nist-zh-en"]
NAMES = [f"{corpus}/{system}" for corpus in CORPORA for system in SYSTEMS]
NAMES += ["demo/transformer", "demo/reformer-base", "demo/reformer-fast"]
NAMES += ["demo/reformer-fast-tiny"]
NAMES += ["demo/dlcl", "demo/transformer-small", "demo/transformer-pp", "demo/rnmt-plus"]
DEEP = ["transformer-post-6", "transformer-pre-20", "dlcl-post-6", "dlcl-post-25", "dlcl-pre-6"]
DEEP += ["dlcl-pre-30", "transformer", "transformer-big", "transformer-pre-6", "transformer-8k"]
NAMES += [*(f"wmt14-en-de/{name}" for name in DEEP), "wmt14-en-fr/transformer-8k"]
NAMES += [f"multi30k-de-en/{name}" for name in ("transformer", "dlcl")]
NAMES += [f"multi30k-de-en/{name}" for name in ("reformer-base", "reformer-fast")]
NAMES += ["multi30k-en-de/transformer-tiny"]
PERVASIVE = ["pervasive", "pervasive-2018-max", "pervasive-2018-attention"]
NAMES += [f"iwslt14-de-en/{name}" for name in PERVASIVE]
NAMES += ["ud-en/transformer-pp"]
NAMES += ["demo/pervasive", "multi30k-de-en/pervasive"]
RNMT = ["wmt14-en-de/rnmt-plus", "wmt14-en-fr/rnmt-plus", "multi30k-de-en/rnmt-plus"]
NAMES += [*RNMT, "iwslt14-de-en/rnmt-plus", "iwslt14-de-en/rnmt-plus-small"]

NAMES += [
    f"{corpus}/convs2s"
    for corpus in ("demo", "multi30k-de-en", "iwslt14-de-en", "wmt14-en-de", "wmt14-en-fr")
]

HYBRIDS = ["hybrid-t2r", "hybrid-r2t", "hybrid-cascade", "hybrid-columns"]
HYBRID_CORPORA = ["iwslt14-de-en", "multi30k-de-en", "wmt14-en-de", "wmt14-en-fr"]
NAMES += [f"{corpus}/{name}" for corpus in HYBRID_CORPORA for name in HYBRIDS]
NAMES += ["demo/hybrid-t2r", "demo/hybrid-cascade"]
MIXED = [f"{corpus}/transformer-pp" for corpus in ("wmt14-en-de", "wmt14-en-fr", "iwslt14-de-en")]
MIXED += ["wmt14-en-de/transformer-pp-big", "wmt14-en-fr/transformer-pp-big"]
ABLATIONS = ["no-tagging", "no-convolution", "plain", "centred"]
MIXED += [f"iwslt14-de-en/transformer-pp-{ablation}" for ablation in ABLATIONS]
NAMES += [*MIXED, "multi30k-de-en/transformer-pp"]

MULTI30K = (3200, 2504)
DE_EN, EN_DE, VI_EN, ZH_EN = (8848, 6632), (6632, 8848), (7709, 17191), (40448, 36096)
EN_DE_WMT, WMT = (34040, 34040), (37_000, 37_000)
# Confirmed by building the original implementation, or by the formula of the system's size.
SIZES = {
    **{
        f"wmt14-en-{language}/{name}": ((32_000, 32_000), count)
        for language in ("de", "fr")
        for name, count in zip(
            HYBRIDS, (359_998_976, 394_279_168, 462_825_984, 539_670_016), strict=True
        )
    },
    "iwslt14-de-en/hybrid-t2r": (DE_EN, 18_551_848),
    "iwslt14-de-en/hybrid-r2t": (DE_EN, 21_051_136),
    "iwslt14-de-en/hybrid-cascade": (DE_EN, 26_041_640),
    "iwslt14-de-en/hybrid-columns": (DE_EN, 30_017_576),
    "wmt14-en-de/convs2s": ((40_000, 40_000), 209_569_920),
    "wmt14-en-fr/convs2s": ((40_000, 40_000), 258_111_616),
    "iwslt14-de-en/convs2s": (DE_EN, 9_618_384),
    "wmt14-en-de/transformer": (WMT, 63_082_496),
    "wmt14-en-de/transformer-big": (WMT, 214_245_376),
    "wmt14-en-de/transformer-8k": ((32_000, 32_000), 375_409_920),
    "wmt14-en-fr/transformer-8k": ((32_000, 32_000), 375_409_920),
    "wmt14-en-de/transformer-pre-6": (EN_DE_WMT, 61_569_024),
    "wmt14-en-de/transformer-post-6": (EN_DE_WMT, 61_566_976),
    "wmt14-en-de/transformer-pre-20": (EN_DE_WMT, 105_702_400),
    "wmt14-en-de/dlcl-post-6": (EN_DE_WMT, 61_579_320),
    "wmt14-en-de/dlcl-post-25": (EN_DE_WMT, 121_494_395),
    "wmt14-en-de/dlcl-pre-6": (EN_DE_WMT, 61_581_368),
    "wmt14-en-de/dlcl-pre-30": (EN_DE_WMT, 137_263_628),
    "wmt14-en-de/rnmt-plus": ((32_000, 32_000), 378_866_176),
    "wmt14-en-fr/rnmt-plus": ((32_000, 32_000), 378_866_176),
    "iwslt14-de-en/rnmt-plus": (DE_EN, 22_881_576),
    "iwslt14-de-en/rnmt-plus-small": (DE_EN, 14_996_776),
    "iwslt14-de-en/pervasive": (DE_EN, 13_014_504),
    "iwslt14-de-en/pervasive-2018-max": (DE_EN, 6_493_800),
    "iwslt14-de-en/pervasive-2018-attention": (DE_EN, 6_551_593),
    "wmt14-en-de/transformer-pp": (WMT, 63_171_127),
    "wmt14-en-de/transformer-pp-big": (WMT, 214_422_583),
    "wmt14-en-fr/transformer-pp": (WMT, 63_171_127),
    "wmt14-en-fr/transformer-pp-big": (WMT, 214_422_583),
    "iwslt14-de-en/transformer-pp": (DE_EN, 16_764_215),
    "iwslt14-de-en/transformer-pp-no-tagging": (DE_EN, 16_750_080),
    "iwslt14-de-en/transformer-pp-no-convolution": (DE_EN, 16_734_007),
    "iwslt14-de-en/transformer-pp-plain": (DE_EN, 16_750_391),
    "iwslt14-de-en/transformer-pp-centred": (DE_EN, 16_764_215),
    "multi30k-en-de/transformer-tiny": ((9736, 9736), 2_571_264),
    "multi30k-de-en/transformer": (MULTI30K, 2_119_168),
    "multi30k-de-en/reformer-base": (MULTI30K, 2_134_016),
    "multi30k-de-en/reformer-fast": (MULTI30K, 2_134_272),
    "iwslt14-de-en/transformer": (DE_EN, 16_720_896),
    "iwslt14-de-en/transformer-scaled": (DE_EN, 42_866_688),
    "iwslt14-de-en/reformer-base": (DE_EN, 16_783_872),
    "iwslt14-de-en/reformer-fast": (DE_EN, 17_574_144),
    "iwslt14-de-en/reformer-fast-scaled": (DE_EN, 27_828_480),
    "iwslt14-en-de/transformer": (EN_DE, 17_288_192),
    "iwslt14-en-de/reformer-base": (EN_DE, 17_351_168),
    "iwslt14-en-de/reformer-fast": (EN_DE, 18_141_440),
    "iwslt15-vi-en/transformer": (VI_EN, 21_835_520),
    "iwslt15-vi-en/reformer-base": (VI_EN, 21_898_496),
    "iwslt15-vi-en/reformer-fast": (VI_EN, 22_688_768),
    "nist-zh-en/transformer": (ZH_EN, 101_812_224),
    "nist-zh-en/transformer-scaled": (ZH_EN, 291_704_832),
    "nist-zh-en/reformer-base": (ZH_EN, 102_069_248),
    "nist-zh-en/reformer-fast": (ZH_EN, 105_222_656),
    "nist-zh-en/reformer-fast-scaled": (ZH_EN, 146_178_560),
}


def test_every_promised_recipe_is_there() -> None:
    assert recipe_names() == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_for_its_corpus_and_system(name: str) -> None:
    corpus, _, system = name.partition("/")
    config = load_config(name, system_configs())
    assert config.data.corpus == ("grammar-de-en" if corpus == "demo" else corpus)
    assert config.model.system == re.sub(
        "-(scaled|small|tiny|(pre|post)-[0-9]+|2018-(max|attention)|t2r|r2t|cascade|columns"
        "|big|8k|no-[a-z]+|plain|centred)$",
        "",
        system,
    )


@pytest.mark.parametrize("name", SIZES)
def test_a_recipe_has_the_published_number_of_parameters(name: str) -> None:
    vocabularies, parameters = SIZES[name]
    with torch.device("meta"):
        model = build_model(load_config(name, system_configs()).model, *vocabularies)
    assert model.parameter_count() == parameters
    assert f"# {parameters:,} parameters" in recipe_text(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_complete_text_means_what_the_recipe_means(name: str) -> None:
    text = recipe_text(name)
    values = tomllib.loads(text)
    assert "extends" not in values
    assert build_config(values, system_configs(), where=name) == load_config(name, system_configs())


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_it_is_in_its_first_line(name: str) -> None:
    assert re.fullmatch(r"[A-Z].{20,90}\.", description(recipe_text(name)))


PUBLISHED = [name for name in NAMES if name.startswith(("iwslt", "nist", "wmt", "multi30k-en"))]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_number_of_a_published_setting_names_its_source(name: str) -> None:
    settings, _, _ = recipe_text(name).partition("[expect]")  # a band names its results
    numbers = [line for line in settings.splitlines() if re.match(r"\w+ = [\d{]", line)]
    unsourced = [line for line in numbers if not re.search(r"# .*(\[[PCIO]\]|Vaswani)", line)]
    assert len(numbers) > 10
    assert unsourced == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("wmt14")])
def test_a_recipe_of_another_vocabulary_than_its_corpus_has_says_how_to_prepare_it(
    name: str,
) -> None:
    text, corpus = recipe_text(name), name.partition("/")[0]
    tokens = re.search(r"^# .* with ([\d,]+) ", text, re.MULTILINE)
    assert tokens is not None
    usual = f"{find_entry(corpus).options['bpe_merges']:,}"
    assert (f"jtrans prepare {corpus} --bpe-merges " in text) == (tokens[1] != usual)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_score_over_validations_has_a_recipe_that_keeps_them(name: str) -> None:
    text = recipe_text(name)
    if found := re.search(r"mean of (\d+) validations", text):
        assert load_config(name, system_configs()).training.keep.window == int(found[1])


def test_the_comment_of_a_recipe_wins_with_its_value() -> None:
    lines = recipe_text("nist-zh-en/reformer-fast-scaled").splitlines()
    dropouts = [line for line in lines if line.startswith("dropout")]
    assert len(dropouts) == 1
    assert dropouts[0].startswith("dropout = 0.2 ")
    assert "the paper says 0.1" in dropouts[0]


def test_recipes_are_data_only() -> None:
    kinds = {path.suffix for path in RECIPES.rglob("*") if path.is_file()}
    assert kinds - {".pyc"} == {".toml", ".py"}
    assert [path.name for path in RECIPES.rglob("*.py")] == ["__init__.py"]
