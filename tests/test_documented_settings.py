"""The table of settings in docs/training.md lists what a recipe can set, with the defaults."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jtrans.config.schema import DataConfig, DecodingConfig
from jtrans.config.section import ConfigSection, NamedSection
from jtrans.config.training import TrainingConfig

DOCUMENT = Path(__file__).parents[1] / "docs" / "training.md"
SECTIONS: dict[str, type[ConfigSection]] = {
    "data": DataConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}


def settings_of(section: type[ConfigSection], prefix: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield each setting with its defaults, which depend on the name of a named section."""
    own = section.OWN.values() if issubclass(section, NamedSection) else ()
    for name, field in section.model_fields.items():
        if isinstance(field.default, ConfigSection):
            yield from settings_of(type(field.default), f"{prefix}.{name}")
        elif field.default is None:
            yield f"{prefix}.{name}", [keys[name] for keys in own if name in keys] or [None]
        else:
            yield f"{prefix}.{name}", [field.default]


SETTINGS = {
    key: defaults
    for name, section in SECTIONS.items()
    for key, defaults in settings_of(section, name)
}
ROWS = re.findall(r"^\| `(\w+\.[\w.]+)` \| (.*?) \|", DOCUMENT.read_text("utf-8"), re.M)


def test_every_setting_is_listed_once_and_no_other() -> None:
    assert sorted(key for key, _ in ROWS) == sorted(SETTINGS)


@pytest.mark.parametrize(("key", "cell"), ROWS, ids=[key for key, _ in ROWS])
def test_the_default_of_a_setting_is_that_of_the_schema(key: str, cell: str) -> None:
    shown = re.fullmatch(r"`(.*)`", cell)
    value = tomllib.loads(f"value = {shown[1]}")["value"] if shown else None
    defaults = [list(each) if isinstance(each, tuple) else each for each in SETTINGS[key]]
    assert value in defaults
