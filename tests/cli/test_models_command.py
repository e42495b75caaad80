"""`jtrans models`: the systems of the zoo, their sizes and options."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from jtrans.cli.models import models
from jtrans.config import load_config
from jtrans.errors import ConfigError
from jtrans.models.zoo import SYSTEMS, system_configs


@pytest.fixture
def run() -> Callable[..., str]:
    """Return a function that runs the command and returns its standard output."""
    app = typer.Typer()
    app.command()(models)

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return call


def test_every_system_is_listed_with_its_paper(run: Callable[..., str]) -> None:
    table = run()
    assert all(name in table and system.paper in table for name, system in SYSTEMS.items())
    assert [each["name"] for each in json.loads(run("--json"))["systems"]] == list(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_option_of_a_system_is_shown_and_can_be_set(
    name: str, run: Callable[..., str]
) -> None:
    options = json.loads(run(name, "--json"))["options"]
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
    name: str, parameters: int, run: Callable[..., str]
) -> None:
    assert json.loads(run(name, "--json"))["parameters"] == parameters
    assert f"{parameters:,} parameters" in run(name)


def test_choices_are_shown_with_their_values(run: Callable[..., str]) -> None:
    lines = [line.split() for line in run("reformer-fast").splitlines()]
    assert ["model.grid", '"sum"', '"sum"', "|", '"concat"'] in lines
    assert ["model.side_vectors", "false", "true", "|", "false"] in lines


def test_an_unknown_system_gets_the_nearest_one(run: Callable[..., str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run("transfomer")
    assert caught.value.hint == "did you mean transformer?"
    assert caught.value.exit_code == 2
