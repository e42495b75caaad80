"""A small system with tagging heads, and runs of it with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from plugins.installed_systems import BringSystem
from plugins.random_runs import MakeRun

NAME = "tagger"
MODEL = {"system": NAME, "encoder_layers": 1, "decoder_layers": 1, "width": 8, "ffn_width": 16}
MODEL |= {"heads": 2}
LABELS = {"pos": ["NOUN", "VERB", "PUNCT"], "ner": ["O", "B-PER", "I-PER"]}
SOURCE = '''"""A Transformer whose encoder also predicts tags."""

from typing import Literal

from torch import nn

from jtrans.models.systems import TransformerConfig
from jtrans.models.transformer import Transformer


class Config(TransformerConfig):
    system: Literal["tagger"] = "tagger"


class Tagger(Transformer):
    """A Transformer whose encoder also predicts tags."""

    Config = Config

    def __init__(self, config, source_vocabulary, target_vocabulary):
        super().__init__(config, source_vocabulary, target_vocabulary)
        self.tagging = nn.ModuleDict(
            dict(pos=nn.Linear(config.width, 5), ner=nn.Linear(config.width, 5))
        )

    def tag(self, memory):
        return {kind: head(memory.states) for kind, head in self.tagging.items()}

    @property
    def auxiliary_weights(self):
        return dict(pos=0.1, ner=0.1)
'''


class MakeTagger(Protocol):
    """Writes a run of the system with random weights, and returns its folder."""

    def __call__(self, name: str = "tagger", **facts: Any) -> Path: ...


@pytest.fixture
def make_tagger(bring_system: BringSystem, make_run: MakeRun) -> MakeTagger:
    """Make runs of the system that learned `LABELS`, or the labels given."""
    bring_system(SOURCE, f"{NAME} = my_systems:Tagger")

    def make(name: str = "tagger", **facts: Any) -> Path:
        return make_run(name, config={"model": MODEL}, **{"labels": LABELS, **facts})

    return make
