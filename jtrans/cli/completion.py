"""Shell completion of the names of runs, corpora, recipes, systems and checkpoints.

`jtrans --install-completion` installs it. Where nothing fits, shells complete file names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import typer

from jtrans.data import PREPARED
from jtrans.errors import JtransError


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def choice(metavar: str | None) -> Callable[[str], list[str]] | None:
    """Return what completes one of the values that the help names, such as ``text|jsonl``."""
    values = (metavar or "").split("|")
    if len(values) == 1 or not all(value.isidentifier() and value.islower() for value in values):
        return None
    return lambda incomplete: _fitting(values, incomplete)


def settings(incomplete: str) -> list[str]:
    """Complete the name of a setting; those of models are the ones of all systems."""
    from jtrans.config import Config, ConfigSection
    from jtrans.models.zoo import system_configs

    sections: dict[str, list[type[ConfigSection]]] = {
        name: [type(field.default)]
        for name, field in Config.model_fields.items()
        if isinstance(field.default, ConfigSection)
    }
    sections["model"] = [*system_configs().values()]
    names = (
        f"{section}.{name}"
        for section, classes in sections.items()
        for each in classes
        for name in each.model_fields
    )
    return _fitting(names, incomplete)


def runs(incomplete: str) -> list[str]:
    """Complete a run: its name under runs/, its folder, or @last."""
    from jtrans.runs import RUNS, list_runs

    folders = list_runs()
    names = [folder.relative_to(RUNS).as_posix() for folder in folders]
    paths = [folder.as_posix() for folder in folders] if incomplete.startswith("runs/") else []
    return _fitting([*names, *paths, *(["@last"] if names else [])], incomplete)


def checkpoints(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a checkpoint of the run that was already typed; without one, best or last."""
    from jtrans.runs import find_run

    given = (context.params.get(name) for name in ("run", "runs", "run_name"))
    runs = next(filter(None, given), ())
    # after an option that lacks its value, arguments are still in `args`
    typed = [*([runs] if isinstance(runs, str) else runs), *context.args]
    names = ["best", "last"]
    with contextlib.suppress(JtransError):
        folder = find_run(typed[0] if typed else "@last").checkpoints_folder
        saved = sorted({path.parent.name for path in folder.glob("[!.]*/*.safetensors")})
        # an update by its number, an average by its name
        names += [name.removeprefix("step-").lstrip("0") for name in saved]
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
