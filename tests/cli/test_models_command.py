"""`jtrans models`: the systems of the zoo, their sizes and options."""

from __future__ import annotations

import json

import pytest
from plugins.command_line import Jtrans

from jtrans.config import load_config
from jtrans.models.zoo import SYSTEMS, system_configs


def test_every_system_is_listed_with_its_paper(jtrans: Jtrans) -> None:
    table = jtrans("models").out
    assert all(name in table and system.paper in table for name, system in SYSTEMS.items())
    systems = json.loads(jtrans("models", "--json").out)["systems"]
    assert [system["name"] for system in systems] == list(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_option_of_a_system_is_shown_and_can_be_set(name: str, jtrans: Jtrans) -> None:
    options = json.loads(jtrans("models", name, "--json").out)["options"]
    assert {each["name"] for each in options} == set(system_configs()[name].model_fields) - {
        "system"
    }
    overrides = [f"model.{each['name']}={json.dumps(each['default'])}" for each in options]
    config = load_config(f"demo/{name}", system_configs(), overrides=overrides)
    assert config.model == system_configs()[name](system=name)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("transformer", 16_720_896),
        ("reformer-base", 16_783_872),
        ("reformer-fast", 17_574_144),
    ],
)
def test_the_size_is_that_of_the_published_setting(
    name: str, parameters: int, jtrans: Jtrans
) -> None:
    assert json.loads(jtrans("models", name, "--json").out)["parameters"] == parameters
    assert f"{parameters:,} parameters" in jtrans("models", name).out


def test_choices_are_shown_with_their_values(jtrans: Jtrans) -> None:
    lines = [line.split() for line in jtrans("models", "reformer-fast").out.splitlines()]
    assert ["model.grid", '"sum"', '"sum"', "|", '"concat"'] in lines
    assert ["model.side_vectors", "false", "true", "|", "false"] in lines


def test_an_unknown_system_gets_the_nearest_one(jtrans: Jtrans) -> None:
    result = jtrans("models", "transfomer")
    assert result.code == 2
    assert "hint: did you mean transformer?" in result.err
