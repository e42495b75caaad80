"""`jtrans models`: the systems, with the paper, size and options of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from jtrans.cli import console
from jtrans.cli.options import Json
from jtrans.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from jtrans.models.zoo import System

# The setting whose size is shown: the published one of every system (Li et al. 2020, table 1).
_CORPUS = "iwslt14-de-en"
_VOCABULARIES = 8848, 6632  # its German and English dictionaries


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the options of this system.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the systems, or show the size and the options of one.

    [bold]Examples[/bold]

      jtrans models

      jtrans models reformer-fast
    """
    from jtrans.models.zoo import SYSTEMS

    if name is not None:
        _show(name, _find(name), as_json=as_json)
        return
    if as_json:
        systems = [
            {"name": name, "summary": system.summary, "paper": system.paper}
            for name, system in SYSTEMS.items()
        ]
        console.print_json({"systems": systems})
        return
    rows = [[name, system.summary, system.paper] for name, system in SYSTEMS.items()]
    console.print_table(["system", "what it is", "paper"], rows)
    console.next_step(f"jtrans models {rows[-1][0]}")


def _find(name: str) -> System:
    from jtrans.models.zoo import SYSTEMS

    if name not in SYSTEMS:
        near = did_you_mean(name, SYSTEMS)
        raise ConfigError(
            f"unknown system: {name}",
            hint=f"did you mean {near}?" if near else f"one of: {', '.join(SYSTEMS)}",
            kind="config.unknown-system",
        )
    return SYSTEMS[name]


def _show(name: str, system: System, *, as_json: bool) -> None:
    options = _options(system)
    recipe, parameters = f"{_CORPUS}/{name}", _parameters(name)
    if as_json:
        console.print_json(
            {
                "name": name,
                "summary": system.summary,
                "paper": system.paper,
                "recipe": recipe,
                "parameters": parameters,
                "options": options,
            }
        )
        return
    facts = [["what it is", system.summary], ["paper", system.paper]]
    facts.append(["size", f"{parameters:,} parameters in {recipe}"])
    console.print_table(["system", name], facts)
    print()
    rows = [[f"model.{o['name']}", _shown(o["default"]), o["values"]] for o in options]
    console.print_table(["option", "default", "values"], rows)
    console.next_step(f"jtrans recipes {recipe}")


def _options(system: System) -> list[dict[str, Any]]:
    fields = system.config_class().model_fields
    return [
        {"name": name, "default": field.default, "values": _values(field.annotation)}
        for name, field in fields.items()
        if name != "system"
    ]


def _values(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(_shown(value) for value in get_args(annotation))
    names = {bool: "true | false", int: "a whole number", float: "a number", str: "a text"}
    return names.get(annotation, str(annotation))


def _shown(value: Any) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _parameters(name: str) -> int:
    """Count the parameters of the published setting; no memory is taken for them."""
    import torch

    from jtrans.config import load_config
    from jtrans.models.zoo import build_model, system_configs

    config = load_config(f"{_CORPUS}/{name}", system_configs())
    with torch.device("meta"):
        return build_model(config.model, *_VOCABULARIES).parameter_count()
