"""`jtrans models`: the systems, with the paper, size and options of each."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from jtrans.cli import completion, console
from jtrans.cli.options import JSON, argument
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError

# Sizes are those of the published setting if there is one (Li et al. 2020, tables 3 and 4),
# otherwise of the default one, both with the published German and English dictionaries.
_CORPUS = "iwslt14-de-en"
_VOCABULARIES = 8848, 6632
SPEEDS = {"training": "training ×", "decoding": "decoding ×"}  # key: heading
_WITH = f"with vocabularies of {_VOCABULARIES[0]:,} and {_VOCABULARIES[1]:,} tokens"


def models(
    name: str | None = argument("NAME", "Show options of this system.", None, completion.systems),
    as_json: bool = JSON,
) -> None:
    """List the systems, or show the size and options of one.

    [bold]Examples[/bold]

    jtrans models

    jtrans models reformer-fast
    """
    if name is None:
        _list(as_json=as_json)
    else:
        _show(_describe(name), _options(name), as_json=as_json)


def _list(*, as_json: bool) -> None:
    from jtrans.models.zoo import system_configs

    systems, broken = [], []
    for name in system_configs():
        try:
            systems.append(_describe(name))
        except ConfigError as error:  # an unusable system must not hide the others
            broken.append({"name": name, "message": error.message})
            console.warn(f"{error.message} ({error.where}); {error.hint}")
    speeds = read_speeds()
    if as_json:
        origin = {key: value for key, value in speeds.items() if key != "systems"}
        console.print_json({"systems": systems, "broken": broken, "speeds": origin or None})
        return
    headings = list(SPEEDS.values()) if speeds else []
    columns = ["system", "parameters", *headings, "description", "paper"]
    rows = [
        [
            system["name"],
            _count(system["parameters"]),
            *(_ratios(system) if speeds else []),
            system["summary"],
            system["paper"],
        ]
        for system in systems
    ]
    print_table(columns, rows, right=["parameters", *headings])
    console.talk(f"Parameters: of the {_CORPUS} recipe if any, else of the default, {_WITH}")
    if speeds:
        console.talk(
            "Speed of training and decoding: relative to the Transformer, at the size of "
            f"{speeds['recipes']}; {speeds['machine']}, {speeds['date']}"
        )
    console.next_step("jtrans models reformer-fast")


def _show(system: dict[str, Any], options: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        console.print_json({**system, "options": options})
        return
    is_published = system["recipe"] == f"{_CORPUS}/{system['name']}"
    setting = f"in {system['recipe']}" if is_published else "by default"
    size = f"{_count(system['parameters'])} parameters {setting}, {_WITH}"
    rows = [
        ["description", system["summary"]],
        ["paper", system["paper"]],
        ["size", "depends on options without a default" if system["parameters"] is None else size],
    ]
    if system["relative_speed"]:
        training, decoding = _ratios(system)
        rows.append(["speed", f"training {training}, decoding {decoding} of the Transformer's"])
    if system["distribution"] != "jtrans":
        rows.append(["provided by", system["distribution"]])
    print_table(["system", system["name"]], rows)
    print()
    rows = [[f"model.{o['name']}", _shown(o["default"]), o["values"]] for o in options]
    print_table(["option", "default", "values"], rows)
    if system["distribution"] == "jtrans":  # recipes of third-party systems are not listed
        console.next_step(f"jtrans recipes {system['recipe'] or ''}".strip())


def _describe(name: str) -> dict[str, Any]:
    """Return the description of a system.

    Raises:
        ConfigError: there is no such system, or it cannot be used.
    """
    from jtrans.config import recipe_names
    from jtrans.models.zoo import SystemEntry, system_configs

    system = system_configs().entry(name)
    is_ours = isinstance(system, SystemEntry)  # a third-party one may have the name of a recipe
    recipes = [each for each in recipe_names() if is_ours and each.rpartition("/")[2] == name]
    published = f"{_CORPUS}/{name}"
    recipe = published if published in recipes else next(iter(recipes), None)
    try:
        parameters = _parameters(name, recipe if recipe == published else None)
    except Exception as error:
        if is_ours or isinstance(error, ConfigError):
            raise
        raise ConfigError(  # third-party code may fail in any way
            f"the system {name} of {system.distribution} cannot be built: "
            f"{type(error).__name__}: {error}",
            where="its default configuration",
            hint="see docs/adding-a-system.md",
            kind="config.broken-system",
        ) from error
    return {
        "name": name,
        "summary": system.summary,
        "paper": system.paper,
        "recipe": recipe,
        "parameters": parameters,
        "vocabularies": list(_VOCABULARIES),
        "relative_speed": read_speeds().get("systems", {}).get(name),
        "distribution": system.distribution,
    }


def read_speeds() -> dict[str, Any]:
    """Return the speeds that scripts/bench/systems.py measured; empty if it has not been run."""
    from jtrans.config import RECIPES
    from jtrans.files import read_json

    path = RECIPES.parent / "models" / "speeds.json"
    return read_json(path) if path.exists() else {}


def _ratios(system: dict[str, Any]) -> list[str]:
    """Return the relative speeds of training and decoding; empty texts if not measured."""
    speed = system["relative_speed"] or {}
    return [f"{speed[key]:.2f}" if key in speed else "" for key in SPEEDS]


def _parameters(name: str, recipe: str | None) -> int | None:
    """Count the parameters without initialising them; None if some sizes have no default."""
    from jtrans.config import build_config, load_config
    from jtrans.models.zoo import build_undrawn, system_configs

    configs = system_configs()
    if recipe is not None:
        config = load_config(recipe, configs).model
    elif any(field.is_required() for field in configs[name].model_fields.values()):
        return None
    else:
        where = f"the default configuration of {name}"
        config = build_config({"model": {"system": name}}, configs, where=where).model
    # not on the meta device: for it torch imports its compiler, which takes three seconds more
    return build_undrawn(config, *_VOCABULARIES).parameter_count()


def _options(name: str) -> list[dict[str, Any]]:
    from pydantic_core import to_jsonable_python

    from jtrans.models.zoo import system_configs

    return [
        {
            "name": option,
            "default": None if field.is_required() else to_jsonable_python(field.get_default()),
            "values": _values(field.annotation),
        }
        for option, field in system_configs()[name].model_fields.items()
        if option != "system"
    ]


def _values(annotation: Any) -> str:
    from jtrans.config.section import ConfigSection

    origin = get_origin(annotation)
    if origin is Annotated:
        return _values(get_args(annotation)[0])
    if origin is Literal:
        return " | ".join(_shown(value) for value in get_args(annotation))
    if origin in (Union, UnionType):
        return " | ".join(map(_values, get_args(annotation)))
    if origin in (tuple, list):
        return "a list"
    if origin is dict:
        return "a table"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(str(member.value) for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, ConfigSection):
        return f"a table of: {', '.join(annotation.model_fields)}"
    names = {
        type(None): "none",
        bool: "true | false",
        int: "an integer",
        float: "a number",
        str: "a string",
        Path: "a path",
    }
    return names.get(annotation, str(annotation))


def _count(parameters: int | None) -> str:
    return "" if parameters is None else f"{parameters:,}"


def _shown(value: Any) -> str:
    """Return a value in TOML notation."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
