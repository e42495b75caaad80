"""Shell completion of the names of runs, corpora, recipes, systems and checkpoints.

`jtrans --install-completion` installs it. Where no name fits, shells complete file names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import TYPE_CHECKING, Union, get_args, get_origin

import typer

from jtrans.data import PREPARED
from jtrans.errors import JtransError

if TYPE_CHECKING:
    from pydantic import BaseModel


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin with `incomplete`, except those that shells would split."""
    return [
        name
        for name in dict.fromkeys(names)
        if name.startswith(incomplete) and re.fullmatch(r"[\w@%+=:,./-]+", name)
    ]


def choice(metavar: str | None) -> Callable[[str], list[str]] | None:
    """Return a completer for the values in a metavar such as ``text|jsonl``, None for others."""
    values = (metavar or "").split("|")
    if len(values) == 1 or not all(re.fullmatch("[a-z0-9-]+", value) for value in values):
        return None
    return lambda incomplete: _fitting(values, incomplete)


def settings(incomplete: str) -> list[str]:
    """Complete the name of a setting, of ``model.`` those of all systems."""
    from jtrans.config import Config
    from jtrans.models.zoo import system_configs

    names = [*_setting_names(Config, "")]
    for each in system_configs().values():
        names += _setting_names(each, "model.")
    return _fitting(names, incomplete)


def _setting_names(section: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the names of all settings of a section and of the sections in it."""
    from jtrans.config import ConfigSection

    for name, field in section.model_fields.items():
        kind = field.annotation
        is_choice = get_origin(kind) in (Union, UnionType)
        kinds = get_args(kind) if is_choice else (kind,)
        inner = [
            each for each in kinds if isinstance(each, type) and issubclass(each, ConfigSection)
        ]
        for each in inner:
            yield from _setting_names(each, f"{prefix}{name}.")
        if not inner:
            yield f"{prefix}{name}"


def runs(incomplete: str) -> list[str]:
    """Complete a run: its name under runs/, its folder, or @last."""
    from jtrans.runs import RUNS, list_runs

    folders = list_runs()
    names = [folder.relative_to(RUNS).as_posix() for folder in folders]
    paths = [folder.as_posix() for folder in folders] if incomplete.startswith("runs/") else []
    return _fitting([*names, *paths, *(["@last"] if names else [])], incomplete)


def runs_or_files(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a run, but not after --hyp or --ref, whose values are files."""
    return [] if context.params.get("hyp") or context.params.get("ref") else runs(incomplete)


def checkpoints(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a checkpoint of the run already typed, or of ``@last`` if none is."""
    from jtrans.runs import find_run

    given = (context.params.get(name) for name in ("run", "runs", "run_name"))
    runs = next(filter(None, given), ())
    # arguments after the option being completed are still in `args`
    typed = [*([runs] if isinstance(runs, str) else runs), *context.args]
    names = ["best", "last"]
    with contextlib.suppress(JtransError):
        saved = find_run(typed[0] if typed else "@last").saved_names()
        # an update by its number, an average by its name
        names += [name.removeprefix("step-").lstrip("0") or "0" for name in saved]
    return _fitting(names, incomplete)


def recipes(incomplete: str) -> list[str]:
    """Complete a recipe."""
    from jtrans.config.load import recipe_names

    return _fitting(recipe_names(), incomplete)


def corpora(incomplete: str) -> list[str]:
    """Complete a corpus of the catalogue, in either direction."""
    from jtrans.corpora.catalogue.load import CATALOGUE
    from jtrans.corpora.entry import swap_name

    swapped = [swap_name(entry.name) for entry in CATALOGUE.values() if entry.both_ways]
    return _fitting([*CATALOGUE, *swapped], incomplete)


def prepared(incomplete: str) -> list[str]:
    """Complete the folder of a prepared corpus in data/prepared."""
    folders = sorted(path.parent for path in PREPARED.glob("*/corpus.json"))
    return _fitting([folder.as_posix() for folder in folders], incomplete)


def systems(incomplete: str) -> list[str]:
    """Complete a system."""
    from jtrans.models.zoo import system_configs

    return _fitting(system_configs(), incomplete)
