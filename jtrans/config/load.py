"""From a recipe or a TOML file to a checked `Config`.

Precedence: defaults < `extends` < file < `--set` < named options. A run stores the result with
every value written out, and that file can be used for training as it is. Renamed keys are still
read under their old names.
"""

from __future__ import annotations

import contextlib
import logging
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jtrans.config.faults import Origins, explain_fault, fault_of_model, origin_of
from jtrans.config.schema import Config, SystemConfig
from jtrans.config.section import NamedSection
from jtrans.config.training import OptimiserConfig, ScheduleConfig
from jtrans.errors import ConfigError, did_you_mean, name_hint

RECIPES = Path(__file__).parent.parent / "recipes"
SHARED = "_shared"  # the folder of RECIPES with settings shared by several recipes
# settings whose values do not matter for the expected scores of a recipe
SAME_RECIPE = {"training.seed", "training.precision", "training.deterministic"}
NAMED: dict[str, type[NamedSection]] = {"optimiser": OptimiserConfig, "schedule": ScheduleConfig}
_log = logging.getLogger(__name__)
# Old names of keys, so that old files and runs can still be read.
RENAMED = {
    "training.pass_tokens": "training.micro_batch_tokens",
    "training.pass_joint": "training.micro_batch_joint",
    "training.pass_overhead": "training.micro_batch_overhead",
}


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    paths = [path.relative_to(RECIPES) for path in RECIPES.rglob("*.toml")]
    return sorted(path.with_suffix("").as_posix() for path in paths if path.parts[0] != SHARED)


def find_config(name: str) -> Path:
    """Return the file of a recipe name or of a path to a TOML file.

    Raises:
        ConfigError: no such recipe or file.
    """
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ConfigError(
                f"no such configuration file: {name}",
                hint="start from a copy of a recipe: jtrans recipes NAME --copy my.toml",
                kind="config.missing",
            )
        return path
    recipe = RECIPES / f"{name}.toml"
    if name in recipe_names():
        return recipe
    if (path / "config.toml").is_file():
        raise ConfigError(
            f"{name} is a run, not a recipe",
            hint=f"its settings are in {path / 'config.toml'}",
            kind="config.unknown-recipe",
        )
    if path.is_file():
        raise ConfigError(
            f"{name} is not the name of a recipe, and configuration files end in .toml",
            hint="rename the file",
            kind="config.unknown-recipe",
        )
    group, _, system = name.partition("/")
    is_typo = did_you_mean(group, {each.partition("/")[0] for each in recipe_names()})
    is_other_corpus = not is_typo and f"demo/{system}" in recipe_names()
    raise ConfigError(
        f"no such recipe: {name}",
        hint=f"demo/{system} fits any corpus: --data data/prepared/{group} --run runs/{name}"
        if is_other_corpus
        else name_hint(name, recipe_names(), "jtrans recipes lists them"),
        kind="config.unknown-recipe",
    )


def load_config(
    name: str,
    systems: Mapping[str, type[SystemConfig]],
    *,
    overrides: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Load a recipe or a TOML file.

    The scores that a file expects are kept only if no setting of it is changed, apart from
    `SAME_RECIPE`.

    Args:
        name: a recipe's name or a path ending in .toml.
        systems: the configuration class of each system (`models.zoo.system_configs`).
        overrides: `--set` values, each `section.key=value`; the value is TOML, or plain text.
        options: settings by dotted key, which override all others.

    Raises:
        ConfigError: unknown file, key, type or value, naming the nearest valid key.
    """
    path = find_config(name)
    values, files = _read(path), [path]
    base = values.pop("extends", None)
    if base is not None:
        inherited, more = _read_base(path, str(base))
        inherited.pop("expect", None)  # scores of the base's own settings
        values, files = _merge_files(inherited, values), [*more, path]
    parsed = [_parse_override(override) for override in overrides]
    chosen = (options or {}).items()
    origins = dict.fromkeys(set_values(values, parsed, "--set"), "from --set")
    origins |= dict.fromkeys(set_values(values, chosen, "an option"), "from an option")
    drop_expectations(values, origins)
    return build_config(
        values, systems, where=str(path), origins=lambda: [origins, key_lines(files)]
    )


def drop_expectations(values: dict[str, Any], changed: Iterable[str]) -> None:
    """Remove a recipe's expected scores if its settings were changed, but the scores were not.

    Args:
        values: the recipe.
        changed: the changed settings, by dotted key.
    """
    keys = set(changed)
    if keys - SAME_RECIPE and not any(key.startswith("expect.") for key in keys):
        values.pop("expect", None)


def key_lines(files: Iterable[Path]) -> dict[str, str]:
    """Return the file and line where each key and section begins, by dotted key.

    If several files set a key, the last one counts.
    """
    places: dict[str, str] = {}
    for path in files:
        lines: dict[str, int] = {}
        rows = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
        begin = 1
        for end in range(1, len(rows) + 1):
            with contextlib.suppress(tomllib.TOMLDecodeError):  # the rows end within a value
                for key in _dotted_keys(tomllib.loads("".join(rows[:end]))):
                    lines.setdefault(RENAMED.get(key, key), begin)
                begin = end + 1
        places |= {key: f"{path}, line {line}" for key, line in lines.items()}
    return places


def _dotted_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted_keys(value, f"{prefix}{key}.")


def build_config(
    values: Mapping[str, Any],
    systems: Mapping[str, type[SystemConfig]],
    *,
    where: str,
    origins: Callable[[], Origins] = tuple,
) -> Config:
    """Validate plain values and return them as a `Config`.

    Args:
        values: sections of keys, as read from TOML.
        systems: the configuration class of each system.
        where: the file they are from, for errors.
        origins: returns where individual keys were set; called for errors only.

    Raises:
        ConfigError: an unknown key, type or value, naming the nearest valid key.
    """
    values = _rename_keys(values, where)
    model = values.get("model") or {}
    if not isinstance(model, Mapping):
        raise ConfigError(
            f"model is a section with keys of its own (got {model!r})",
            where=origin_of("model", origins(), where),
            hint="for example [model], and width = 256 in the line below",
            kind="config.value",
        )
    system = model.get("system")
    if system is None:
        for section in values.keys() - Config.model_fields.keys():  # such as a misspelt [model]
            raise ConfigError(
                f"unknown key {section}",
                where=origin_of(section, origins(), where),
                hint=name_hint(section, list(Config.model_fields), "jtrans recipes shows examples"),
                kind="config.unknown-key",
            )
        raise ConfigError(
            "model.system is missing",
            where=origin_of("model.system", origins(), where),
            hint=f"one of: {', '.join(systems)}",
            kind="config.missing-key",
        )
    if system not in systems:
        raise ConfigError(
            f"unknown system: {system}",
            where=origin_of("model.system", origins(), where),
            hint=name_hint(str(system), systems, "jtrans models lists those installed here"),
            kind="config.unknown-system",
        )
    schema = systems[system]
    try:
        values["model"] = schema.model_validate(model)
    except ValidationError as error:
        raise fault_of_model(error, schema, model, where, origins()) from error
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        hint = "jtrans recipes shows examples"
        raise explain_fault(error, Config, where=where, hint=hint, origins=origins()) from error


def _read(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_toml(path, text, error) from None
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration: {error.strerror}", where=str(path)
        ) from None
    _log.info("read %s", path)
    return _rename_keys(values, str(path))


def _not_toml(path: Path, text: str, error: Exception) -> ConfigError:
    """Return the error for a file whose text cannot be parsed, with the line to look at."""
    message, place = f"not valid TOML: {error}", str(path)
    hint = "jtrans recipes demo/transformer shows a valid file"
    if isinstance(error, UnicodeDecodeError):
        place += f", line {error.object[: error.start].count(10) + 1}"
        hint = "save it as UTF-8"
    elif at := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        message = message[: at.start()]
        place += f", line {at[1]}, column {at[2]}"
        line = text.splitlines()[int(at[1]) - 1].strip()
        hint = f"look at `{line}`: text needs quotes, and no key may appear twice; {hint}"
    return ConfigError(message, where=place, hint=hint, kind="config.toml")


def _rename_keys(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return `values` with every key under its current name."""
    renamed = dict(values)
    for old, new in RENAMED.items():
        section, old_key = old.split(".")
        keys = renamed.get(section)
        if isinstance(keys, Mapping) and old_key in keys:
            new_key = new.removeprefix(f"{section}.")
            if new_key in keys:
                raise _named_twice(old, new, where)
            renamed[section] = {
                new_key if key == old_key else key: value for key, value in keys.items()
            }
    return renamed


def _named_twice(old: str, new: str, where: str) -> ConfigError:
    return ConfigError(
        f"{old} is the old name of {new}, and both are set",
        where=where,
        hint=f"remove {old}",
        kind="config.renamed-key",
    )


def _read_base(path: Path, base: str) -> tuple[dict[str, Any], list[Path]]:
    """Read the file that `path` extends, and return its values and the files they are from.

    A recipe may in turn extend a file of settings that it shares with others.
    """
    base_path = path.parent / base
    if not base_path.is_file():
        base_path = find_config(base)
    if base_path.resolve() == path.resolve():
        raise ConfigError(
            f"{base} extends itself",
            where=str(path),
            hint="name another file, or leave `extends` out",
            kind="config.extends",
        )
    values = _read(base_path)
    shared = values.pop("extends", None)
    if shared is None:
        return values, [base_path]
    if RECIPES not in base_path.parents:
        raise ConfigError(
            f"{base} itself extends another file; only one level is allowed",
            where=str(path),
            hint=f"extend {shared} instead",
            kind="config.extends",
        )
    shared_path = base_path.parent / str(shared)
    return _merge_files(_read(shared_path), values), [shared_path, base_path]


def _merge_files(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `top`, a file that extends it."""
    merged = merge_values(base, top)
    _drop_foreign(merged, set(_dotted_keys(top)))
    return merged


def _drop_foreign(values: dict[str, Any], chosen: Collection[str]) -> None:
    """Drop settings of another optimiser or schedule than the `chosen` one, in place.

    Dotted keys that are `chosen` themselves stay, so that validation refuses them.
    """
    training = values.get("training")
    for name, section in NAMED.items():
        keys = training.get(name) if isinstance(training, dict) else None
        if f"training.{name}.name" in chosen and isinstance(keys, dict):
            for key in section.foreign_keys(str(keys.get("name"))):
                if f"training.{name}.{key}" not in chosen:
                    keys.pop(key, None)


def merge_values(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by the keys of `top`, section by section.

    An optimiser or schedule with another `name` replaces all settings of the one in `base`.
    """
    if "name" in base and base["name"] != top.get("name", base["name"]):
        return dict(top)
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        merged[key] = (
            merge_values(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def _parse_override(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key or not text.strip():
        raise ConfigError(
            f"--set needs KEY=VALUE, not {override!r}",
            where="--set",
            hint="for example --set training.learning_rate=1e-3",
            kind="config.override",
        )
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key, text.strip()  # plain text needs no quotes


def set_values(
    values: dict[str, Any], settings: Collection[tuple[str, Any]], where: str
) -> list[str]:
    """Set dotted keys in place (old names included), and return their current names.

    If a section is given as a whole, its other settings stay.

    Raises:
        ConfigError: a key is set under both its names, or within a key that is not a section.
    """
    settings = [each for key, value in settings for each in _entries(key, value)]
    keys = {key for key, _ in settings}
    for old, new in RENAMED.items():
        if {old, new} <= keys:
            raise _named_twice(old, new, where)
    names = [_set_value(values, key, value, where) for key, value in settings]
    _drop_foreign(values, names)
    return names


def _entries(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return the settings of a section one by one; a section that names a system stays whole."""
    if "." in key or not isinstance(value, dict) or "system" in value:
        return [(key, value)]
    return [(f"{key}.{name}", inner) for name, inner in value.items()]


def _set_value(values: dict[str, Any], key: str, value: Any, where: str) -> str:
    key = RENAMED.get(key, key)
    *sections, last = key.split(".")
    place = values
    for section in sections:
        inner = place.get(section)
        if inner is None:
            inner = place[section] = {}
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{key} cannot be set: {section} should be a section (got {inner!r})",
                where=where,
                hint=f"remove the setting {section} = {inner!r}",
                kind="config.value",
            )
        place = inner
    for old, new in RENAMED.items():
        if new == key:
            place.pop(old.rpartition(".")[2], None)
    place[last] = value
    return key


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of all sections that are set, by their dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat
