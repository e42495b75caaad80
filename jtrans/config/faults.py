"""Validation errors of pydantic, reworded in terms of a configuration file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from jtrans.errors import ConfigError, did_you_mean, name_hint

MOST_SHOWN = 100  # characters of a wrong value
Origins = Sequence[Mapping[str, str]]  # places by dotted key, the most important first


def explain_fault(
    error: ValidationError,
    schema: type[BaseModel],
    *,
    where: str,
    hint: str,
    prefix: str = "",
    origins: Origins = (),
) -> ConfigError:
    """Turn pydantic's first fault into an error a user can act on.

    Args:
        error: the error that `schema.model_validate` raised.
        schema: names the valid keys.
        where: the file or option, unless `origins` has a more exact one.
        hint: what to do about a wrong value; for a wrong key it is the closest valid one.
        prefix: the section that `schema` describes, put before each key.
        origins: where individual keys were set.
    """
    fault = error.errors()[0]
    parts = _key_parts(fault)
    key = ".".join([prefix, *parts] if prefix else parts)
    place = origin_of(key, origins, where)
    if fault["type"] == "extra_forbidden":
        valid = _sibling_keys(schema, parts)
        near = did_you_mean(parts[-1], valid)
        section = "".join(f"{part}." for part in key.split(".")[:-1])
        hint = f"did you mean {section}{near}?" if near else f"valid keys: {', '.join(valid)}"
        message, kind = f"unknown key {key}", "config.unknown-key"
        return ConfigError(message, where=place, hint=hint, kind=kind)
    if fault["type"] == "value_error":
        message = str(fault["msg"]).removeprefix("Value error, ")
        hint = getattr(fault["ctx"]["error"], "hint", hint)
        place = f"{key}, {place}" if key else place
        return ConfigError(message, where=place, hint=hint, kind="config.value")
    if fault["type"] == "literal_error":
        hint = name_hint(
            str(fault["input"]), re.findall(r"'(.+?)'", fault["ctx"]["expected"]), hint
        )
    if fault["type"] == "model_type" and (keys := _sibling_keys(schema, [*parts, ""])):
        first = "name" if "name" in keys else keys[0]
        hint = f"set its keys, such as {key}.{first}"
    shown = "" if fault["type"] == "missing" else f" (got {_cut(repr(fault['input']))})"
    # a value may be of several types, each with its own fault: "epoch", or a number
    size = len(parts)
    rules = [_rule(other) for other in error.errors() if _key_parts(other)[:size] == parts]
    message = f"{key}: {', or '.join(dict.fromkeys(rules))}{shown}"
    return ConfigError(message, where=place, hint=hint, kind="config.value")


def fault_of_model(
    error: ValidationError,
    schema: type[BaseModel],
    model: Mapping[str, Any],
    where: str,
    origins: Origins,
) -> ConfigError:
    """Return the error for the section `[model]`, whose own values may not be at fault.

    Args:
        error: the error that `schema.model_validate` raised.
        schema: the configuration class of the system.
        model: the values of the section.
        where: the file, unless `origins` has a more exact place.
        origins: where individual keys were set.
    """
    hint = "jtrans models NAME shows the options of a system"
    fault = explain_fault(error, schema, where=where, hint=hint, prefix="model", origins=origins)
    system, chosen = model["system"], origin_of("model.system", origins, where)
    if fault.kind == "config.unknown-key":
        if chosen.startswith("from ") and fault.where != chosen:
            fault.hint = f"the system is {system} ({chosen}): start from a recipe of that system"
        here = f"{where}, "
        if chosen.startswith(here) and not str(fault.where).startswith(("from ", here)):
            fault.hint = (  # the key is of the file that this one extends
                f"the system is {system} ({chosen}): extend a recipe of that system, or a file "
                "that has what both share, such as [training], and no [model]"
            )
        return fault
    first = error.errors()[0]
    key = next(iter(first["loc"]), "system")  # no key: the values do not fit together
    # an error of a validator may be about other values beside the default
    if key not in model and first["type"] not in ("missing", "value_error"):
        fault.hint = (
            f"this is the default of {system}, which its own type refuses: set model.{key}, or "
            "correct the Config of that system"
        )
    return fault


def fault_in_file(section: BaseModel) -> str | None:
    """Return a setting that would be read back differently from a TOML file, None if none would."""
    import tomli_w

    values: dict[str, Any] = {}
    for key in type(section).model_fields:
        try:
            written = section.model_dump(mode="json", include={key}, exclude_none=True)
            values |= tomllib.loads(tomli_w.dumps(written))
        except (TypeError, ValueError):  # of TOML, and of pydantic
            return f"{key} = {_cut(repr(getattr(section, key)))}"
    try:
        read = type(section).model_validate(values)
    except ValidationError as error:
        return explain_fault(error, type(section), where="", hint="").message
    for key in type(section).model_fields:
        value, again = getattr(section, key), getattr(read, key)
        if value != again:
            return f"{key} = {_cut(repr(value))}, which is read as {_cut(repr(again))}"
    return None


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def origin_of(key: str, origins: Origins, where: str) -> str:
    """Return where a key was set: `where` if it is not among the origins.

    For a section this may be where one of its keys was set, and for a key where its section was.
    """
    for places in origins:
        near = [n for n in places if f"{n}.".startswith(f"{key}.") or f"{key}.".startswith(f"{n}.")]
        if near:  # the key itself, else the innermost section around it
            return places[min(near, key=lambda name: (name != key, name > key, -len(name)))]
    return where


def _key_parts(fault: Mapping[str, Any]) -> list[str]:
    """Return the parts of the key, without pydantic's names of the types it tried."""
    types = ("constrained-int", "int", "float", "str")
    parts = [str(part) for part in fault["loc"]]
    return [
        part
        for part in parts
        if part not in types and not part.startswith(("function", "literal[", "tuple["))
    ]


def _rule(fault: Mapping[str, Any]) -> str:
    rules = {
        "tuple_type": "input should be a list",
        "model_type": "input should be a section",
        "int_parsing": "input should be an integer",
    }
    text = rules.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    return text[0].lower() + text[1:]


def _sibling_keys(schema: type[BaseModel], parts: list[str]) -> list[str]:
    for part in parts[:-1]:
        field = schema.model_fields.get(part)
        if field is None:
            break
        sections = [
            section
            for section in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if isinstance(section, type) and issubclass(section, BaseModel)
        ]
        if not sections:
            break
        schema = sections[0]
    return sorted(schema.model_fields)
