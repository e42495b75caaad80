"""`jtrans models`: the systems of the zoo, their sizes and options."""

from __future__ import annotations

import json

import pytest
from plugins.command_line import Jtrans
from plugins.installed_systems import BringSystem, documented_system

from jtrans.config import load_config, recipe_names
from jtrans.models.zoo import SYSTEMS, system_configs


def test_every_system_is_listed_with_its_paper(jtrans: Jtrans) -> None:
    table = jtrans("models").out
    assert all(name in table and system.paper in table for name, system in SYSTEMS.items())
    systems = json.loads(jtrans("models", "--json").out)["systems"]
    assert [system["name"] for system in systems] == list(SYSTEMS)


def test_every_system_is_listed_with_its_size(jtrans: Jtrans) -> None:
    systems = json.loads(jtrans("models", "--json").out)["systems"]
    sizes = {system["name"]: system["parameters"] for system in systems}
    assert sizes["reformer-fast"] == 17_574_144
    assert sizes["dlcl"] == 16_727_096  # has no published recipe here: the default
    shown = jtrans("models", "dlcl")
    assert "16,727,096 parameters by default" in shown.out and "demo/dlcl" in shown.err
    table = jtrans("models").out
    assert all(f"{sizes[name]:,}" in table for name in SYSTEMS)


def test_an_installed_system_has_its_default_size_and_no_recipe(
    jtrans: Jtrans, bring_system: BringSystem
) -> None:
    bring_system()
    mine = json.loads(jtrans("models", "mine", "--json").out)
    assert mine["recipe"] is None and mine["vocabularies"] == [8848, 6632]
    # two embeddings, two GRUs, the map of both states, the output matrix
    E, V = 64, 8848 + 6632
    sizes = [V * E, 2 * (6 * E * E + 6 * E), 2 * E * E + E, 6632 * (E + 1)]
    assert mine["parameters"] == sum(sizes)
    shown = jtrans("models", "mine").out
    assert "by default" in shown and "my-systems 1.0" in shown


def test_a_broken_system_is_a_warning_beside_the_others(
    jtrans: Jtrans, bring_system: BringSystem
) -> None:
    bring_system("import nowhere")
    listed = jtrans("models", "--json")
    value = json.loads(listed.out)
    assert [system["name"] for system in value["systems"]] == list(SYSTEMS)
    assert [system["name"] for system in value["broken"]] == ["mine"]
    assert "my-systems 1.0 is broken" in value["broken"][0]["message"]
    assert listed.err.startswith("warning: the system mine of my-systems 1.0 is broken")
    assert jtrans("models", "mine").code == 2


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_option_of_a_system_is_shown_and_can_be_set(name: str, jtrans: Jtrans) -> None:
    options = json.loads(jtrans("models", name, "--json").out)["options"]
    assert {each["name"] for each in options} == set(system_configs()[name].model_fields) - {
        "system"
    }
    overrides = [f"model.{each['name']}={json.dumps(each['default'])}" for each in options]
    recipe = next(each for each in recipe_names() if each.startswith(f"demo/{name}"))
    config = load_config(recipe, system_configs(), overrides=overrides)
    assert config.model == system_configs()[name].model_validate({"system": name})


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


def test_a_system_whose_sizes_have_no_default_is_shown_without_a_number(
    jtrans: Jtrans, bring_system: BringSystem
) -> None:
    bring_system(documented_system().replace("width: Count = 64", "width: Count"))
    assert json.loads(jtrans("models", "mine", "--json").out)["parameters"] is None
    assert "depends on options without a default" in jtrans("models", "mine").out
    assert jtrans("models").code == 0


@pytest.mark.parametrize("default", ["None", "4"])
def test_settings_that_may_be_none_are_shown_so_and_have_that_default(
    jtrans: Jtrans, bring_system: BringSystem, default: str
) -> None:
    width = "width: Count = 64"
    setting = f"{width}\n    depth: Count | None = {default}"
    bring_system(documented_system().replace(width, setting))
    shown = jtrans("models", "mine")
    if default == "None":
        assert "an integer | none" in shown.out
    else:
        assert shown.code == 2 and "a default for depth, which may be None" in shown.err


def test_the_measured_speed_of_a_system_is_listed(
    jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = {"training": 0.8371, "decoding": 0.9}
    speeds = {
        "recipes": "iwslt14-de-en",
        "machine": "a processor",
        "date": "2026-01-02",
        "systems": {"dlcl": ratios},
    }
    monkeypatch.setattr("jtrans.cli.models.read_speeds", lambda: speeds)
    listed = jtrans("models")
    assert "training ×" in listed.out and "0.84" in listed.out
    assert "a processor, 2026-01-02" in listed.err
    value = json.loads(jtrans("models", "--json").out)
    assert value["speeds"]["date"] == "2026-01-02"
    measured = {system["name"]: system["relative_speed"] for system in value["systems"]}
    assert measured["dlcl"] == ratios and measured["transformer"] is None
    assert "training 0.84, decoding 0.90" in jtrans("models", "dlcl").out
    monkeypatch.setattr("jtrans.cli.models.read_speeds", dict)
    assert "training ×" not in jtrans("models").out
