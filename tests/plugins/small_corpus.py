"""Small prepared corpora of made-up sentences, and tiny configurations to train on them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jtrans.config import Config, build_config
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.zoo import system_configs
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare

NOUNS = ["hund", "katze", "vogel", "fisch", "maus", "pferd", "kuh", "igel"]
VERBS = ["sieht", "mag", "jagt", "findet", "ruft"]
ENGLISH_NOUNS = ["dog", "cat", "bird", "fish", "mouse", "horse", "cow", "hedgehog"]
ENGLISH_VERBS = ["sees", "likes", "hunts", "finds", "calls"]
ENGLISH = dict(zip(NOUNS + VERBS, ENGLISH_NOUNS + ENGLISH_VERBS, strict=True))
SIZES = {"width": 16, "ffn_width": 32, "heads": 2, "dropout": 0.3, "tie": "decoder"}
NAMES = {"Hund": "Dog", "Katze": "Cat", "Vogel": "Bird", "Fisch": "Fish", "Maus": "Mouse"}
WHITESPACE: dict[str, Any] = {"source_segment": "whitespace", "target_segment": "whitespace"}
LAYERS = {
    "transformer": {"encoder_layers": 1, "decoder_layers": 1},
    "reformer-base": {"layers": 1},
    "reformer-fast": {"layers": 1, "prenet_layers": 1},
}

MakeConfig = Callable[..., Config]


def make_corpus(folder: Path, *, seed: int = 1, pairs: int = 140) -> PreparedCorpus:
    """Prepare a corpus of made-up sentences in `folder`."""
    draw = random.Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < pairs:
        words = [draw.choice(NOUNS), draw.choice(VERBS)]
        words += draw.choices(NOUNS, k=draw.randint(1, 5))
        lines[" ".join(words)] = None
    source = list(lines)
    target = [" ".join(ENGLISH[word] for word in line.split()) for line in source]
    cut = pairs - 20
    splits = {
        "train": ParallelText(source[:cut], target[:cut]),
        "valid": ParallelText(source[cut:], target[cut:]),
    }
    options = PrepareOptions(**WHITESPACE, bpe="none")
    return prepare(Corpus("animals", ("de", "en"), splits), folder, options=options, workers=1)


def make_nouns(
    folder: Path, *, seed: int = 1, test: int = 12, test_seed: int = 2, **options: Any
) -> PreparedCorpus:
    """Prepare sentences of one to six nouns with a test set; pieces are shorter than words."""
    splits = {}
    for name, number, split_seed in (
        ("train", 40, seed),
        ("valid", 4, 8),
        ("test", test, test_seed),
    ):
        draw = random.Random(split_seed)
        source = [" ".join(draw.choices(list(NAMES), k=1 + i % 6)) for i in range(number)]
        target = [" ".join(NAMES[word] for word in line.split()) for line in source]
        splits[name] = ParallelText(source, target)
    values = {**WHITESPACE, "bpe_merges": 8, "deduplicate": False, "drop_leaked": False, **options}
    chosen = PrepareOptions(**values)
    return prepare(Corpus("nouns", ("de", "en"), splits), folder, options=chosen, workers=1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """A prepared corpus of 120 training and 20 validation pairs."""
    return make_corpus(tmp_path_factory.mktemp("corpus") / "animals")


@pytest.fixture(scope="session")
def _nouns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_nouns(tmp_path_factory.mktemp("nouns") / "data").folder


@pytest.fixture
def nouns(_nouns: Path, tmp_path: Path) -> PreparedCorpus:
    """A copy of one corpus of nouns as `data`, with a test set of twelve sentences."""
    return PreparedCorpus.open(Path(shutil.copytree(_nouns, tmp_path / "data")))


def tiny_config(
    system: str = "transformer", model: dict[str, Any] | None = None, **training: Any
) -> Config:
    """Return the configuration of a tiny model; keywords are settings of [training]."""
    values = {
        "model": {"system": system, **SIZES, **LAYERS[system], **(model or {})},
        "training": {
            "batch_tokens": 60,
            "learning_rate": 0.01,
            "schedule": {"warmup": 5},
            "validate_sentences": 4,
            **({} if {"max_epochs", "stop"} & training.keys() else {"max_updates": 12}),
            **training,
        },
        "decoding": {"max_length": "S+5"},
    }
    return build_config(values, system_configs(), where="test")


@pytest.fixture
def make_config() -> MakeConfig:
    """Give test modules `tiny_config`."""
    return tiny_config
