"""`jtrans recipes`: list, print and copy the recipes included in jtrans."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from jtrans.cli import completion, console
from jtrans.cli.options import JSON, argument, option
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError, usage_error

_SECTION = re.compile(r"\[(\w+)\]\s*")
_KEY = re.compile(r"(\w+)\s*=")
_COMMENTED = re.compile(r"(\S.*?)\s+(# .*)")
_EXTENDS = re.compile(r'^extends = "(.+)"\n+', flags=re.MULTILINE)
_COMMENT_COLUMN = 40  # longer lines do not move the comments of others


def recipes(
    name: str | None = argument("NAME", "Print this recipe as TOML.", None, completion.recipes),
    copy: Path | None = option("Write the recipe to this new .toml file instead.", "DEST"),
    as_json: bool = JSON,
) -> None:
    """List the recipes, print one, or copy one to edit.

    [bold]Examples[/bold]

    jtrans recipes iwslt14-de-en/reformer-fast

    jtrans recipes demo/transformer --copy my.toml
    """
    if name is None:
        if copy is not None:
            raise usage_error(
                "--copy needs the name of a recipe",
                "for example: jtrans recipes demo/transformer --copy my.toml",
            )
        _list(as_json=as_json)
    elif copy is None:
        text = recipe_text(name)
        if as_json:
            console.print_json({"name": name, "description": description(text), "toml": text})
        else:
            print(text, end="")
            console.next_step(f"jtrans train {shlex.quote(name)}")
    else:
        path = _copy(name, copy)
        if as_json:
            console.print_json({"name": name, "copy": str(path)})
        console.say("Written", str(path))
        console.next_step(f"jtrans train {shlex.quote(str(path))}")


def description(text: str) -> str:
    """Return the one-line description of a recipe: its first comment."""
    return text.partition("\n")[0].removeprefix("#").strip()


def recipe_text(name: str) -> str:
    """Return a recipe as TOML with its comments, complete with the settings it inherits.

    Raises:
        ConfigError: there is no such recipe, or a user's own file is not UTF-8.
    """
    from jtrans.config import RECIPES, find_config

    path = find_config(name)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8", hint="save it as UTF-8", kind="config.toml"
        ) from error
    base = _EXTENDS.search(text)
    if base is None or RECIPES not in path.parents:
        return text  # a user's own file is shown as it is
    shared = (path.parent / base[1]).read_text(encoding="utf-8")
    return _compose(shared, text[: base.start()] + text[base.end() :])


def _compose(shared: str, recipe: str) -> str:
    """Override the lines of `shared` by those of `recipe`, section by section; keep comments."""
    shared_head, shared_sections = _sections(shared)
    head, own_sections = _sections(recipe)
    names = list(dict.fromkeys(["data", "model", *shared_sections, *own_sections]))
    parts = ["\n".join([*head, *(["#", *shared_head[2:]] if len(shared_head) > 2 else [])])]
    for name in names:
        lines = own_sections.get(name, {}) | {
            key: line
            for key, line in shared_sections.get(name, {}).items()
            if key not in own_sections.get(name, {})
        }
        if lines:
            parts.append("\n".join([f"[{name}]", *_aligned(list(lines.values()))]))
    return "\n\n".join(parts) + "\n"


def _aligned(lines: list[str]) -> list[str]:
    """Align the comments at the ends of lines."""
    split = [match.groups() if (match := _COMMENTED.fullmatch(line)) else None for line in lines]
    lengths = [len(each[0]) for each in split if each and len(each[0]) <= _COMMENT_COLUMN]
    width = max(lengths, default=0)
    return [
        f"{each[0]:<{width}}  {each[1]}" if each else line
        for line, each in zip(lines, split, strict=True)
    ]


def _sections(text: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Split a recipe into its leading comment and, by section, its lines by key."""
    head: list[str] = []
    sections: dict[str, dict[str, str]] = {}
    lines: dict[str, str] | None = None
    for line in text.splitlines():
        if match := _SECTION.fullmatch(line):
            lines = sections.setdefault(match[1], {})
        elif lines is None:
            head += [line] if line.startswith("#") else []
        elif match := _KEY.match(line):
            lines[match[1]] = line
    return head, sections


def expected_scores(text: str) -> list[str]:
    """Return the scores that a recipe was verified with and their origin, one line per split."""
    from jtrans.config.schema import ExpectBand

    bands = tomllib.loads(text).get("expect", {}) if "[expect]" in text else {}
    return [ExpectBand.model_validate(band).describe(split) for split, band in bands.items()]


def _list(*, as_json: bool) -> None:
    from jtrans.config import recipe_names

    entries: list[dict[str, Any]] = []
    for name in recipe_names():
        text = recipe_text(name)
        scores = expected_scores(text)
        entries.append({"name": name, "description": description(text), "verified": scores})
    if as_json:
        console.print_json({"recipes": entries})
        return
    rows = [[each["name"], each["description"], "; ".join(each["verified"])] for each in entries]
    columns = ["recipe", "description", "verified"]
    shown = slice(len(columns) if any(row[2] for row in rows) else 2)
    print_table(columns[shown], [row[shown] for row in rows])
    console.next_step("jtrans recipes demo/reformer-fast")


def _copy(name: str, destination: Path) -> Path:
    from jtrans.config import RECIPES, find_config
    from jtrans.files import write_text

    if RECIPES not in find_config(name).parents:
        raise ConfigError(
            f"{name} is a file of your own, not a recipe of jtrans",
            where="--copy",
            hint=f"jtrans train {shlex.quote(name)} trains it; jtrans recipes lists recipes",
            kind="config.copy",
        )
    # a copy is meant to be changed, and the expected scores hold only for the original settings
    text = re.sub(r"(?ms)^\[expect\b.*?(?=^\[|\Z)", "", recipe_text(name))
    if destination.is_dir():
        destination = destination / f"{name.rpartition('/')[2]}.toml"
    if destination.suffix != ".toml":
        raise ConfigError(
            f"{destination} does not end in .toml",
            where="--copy",
            hint=(
                f"jtrans recipes {name} prints it"
                if str(destination) == "-"
                else f"jtrans recipes {name} --copy {shlex.quote(f'{destination}.toml')}"
            ),
            kind="config.copy",
        )
    if destination.exists():
        raise ConfigError(
            f"{destination} exists already; a copy never overwrites",
            where="--copy",
            hint="choose another name, or delete it",
            kind="config.exists",
        )
    write_text(destination, text)
    return destination
