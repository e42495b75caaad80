"""`jtrans recipes`: list, print, copy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jtrans.cli.recipes import recipes
from jtrans.config import load_config, recipe_names
from jtrans.errors import ConfigError
from jtrans.models.zoo import system_configs


@pytest.fixture
def run() -> Callable[..., str]:
    """Return a function that runs the command and returns its standard output."""
    app = typer.Typer()
    app.command()(recipes)

    def call(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return call


def test_the_list_has_one_line_for_each_recipe(run: Callable[..., str]) -> None:
    lines = run().splitlines()[1:]
    assert [line.split()[0] for line in lines] == recipe_names()
    assert all(line.rstrip().endswith(".") for line in lines)


def test_the_list_as_json_has_names_and_descriptions(run: Callable[..., str]) -> None:
    entries = json.loads(run("--json"))["recipes"]
    assert [entry["name"] for entry in entries] == recipe_names()
    assert all(entry["description"] for entry in entries)


def test_a_recipe_is_printed_complete(run: Callable[..., str]) -> None:
    values = tomllib.loads(run("iwslt14-de-en/reformer-fast"))
    assert values["model"]["prenet_layers"] == 5
    assert values["training"]["schedule"]["warmup"] == 8000


def test_a_recipe_as_json_holds_the_same_text(run: Callable[..., str]) -> None:
    value = json.loads(run("demo/transformer", "--json"))
    assert value["toml"] == run("demo/transformer")


def test_a_copy_trains_the_same_model_from_anywhere(
    run: Callable[..., str], tmp_path: Path
) -> None:
    copy = tmp_path / "deep" / "my.toml"
    run("iwslt14-de-en/reformer-fast", "--copy", copy)
    assert load_config(str(copy), system_configs()) == load_config(
        "iwslt14-de-en/reformer-fast", system_configs()
    )


def test_a_copy_into_a_folder_keeps_the_name(run: Callable[..., str], tmp_path: Path) -> None:
    written = json.loads(run("demo/transformer", "--copy", tmp_path, "--json"))
    assert written["copy"] == str(tmp_path / "transformer.toml")
    assert (tmp_path / "transformer.toml").is_file()


def test_a_copy_never_overwrites(run: Callable[..., str], tmp_path: Path) -> None:
    mine = tmp_path / "my.toml"
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="never overwrites"):
        run("demo/transformer", "--copy", mine)
    assert mine.read_text(encoding="utf-8") == "mine"


def test_a_copy_that_train_would_not_read_is_refused(
    run: Callable[..., str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        run("demo/transformer", "--copy", tmp_path / "my")
    assert str(caught.value.hint).endswith("my.toml")
    assert list(tmp_path.iterdir()) == []


def test_copying_without_a_name_is_refused(run: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        run("--copy", tmp_path / "my.toml")


def test_an_unknown_recipe_gets_the_nearest_one(run: Callable[..., str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run("demo/transfomer")
    assert caught.value.hint == "did you mean demo/transformer?"
