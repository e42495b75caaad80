"""The configuration of a row: its recipe, its settings, and what limits its training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jtrans.errors import usage_error
from scripts.reproduction.catalogue import Row
from scripts.reproduction.results import RowResult
from scripts.reproduction.settings import SETTING, limit_named, plain, settings_differ

if TYPE_CHECKING:
    from jtrans.config import Config

LIMITS = ("max_epochs", "max_updates", "max_minutes", "stop")


def row_config(
    row: Row,
    task: str,
    setting: str,
    overrides: Sequence[str],
    more: Mapping[str, Any],
) -> Config:
    """Return the resolved configuration of a row; the settings in `more` override all others.

    Raises:
        ConfigError: an unknown setting, key or value.
    """
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    # the limit must be known while the recipe is read, as some schedules end there
    options = {**row.settings, **more, **limit_of(setting)}
    config = load_config(
        row.recipe_for(task), system_configs(), overrides=overrides, options=options
    )
    return limited(config, setting)


def limit_of(setting: str) -> dict[str, int]:
    """Return the limit of training that a setting names, by dotted key; none for ``paper``.

    Raises:
        ConfigError: an unknown setting, or one without its limit.
    """
    if not re.fullmatch(SETTING, setting):
        raise usage_error(
            f"no setting {setting!r}: it must be paper, equal-time:MINUTES or "
            "equal-updates:NUMBER, with a whole number above 0",
            "--setting equal-time:60",
            where="--setting",
        )
    return {f"training.{key}": limit for key, limit in limit_named(setting).items()}


def limited(config: Config, setting: str) -> Config:
    """Return a configuration whose training ends as a setting says.

    A schedule that ends with the recipe's last update keeps that end whenever training stops,
    unless the setting names another last update.

    Raises:
        ConfigError: an unknown setting, or one without its limit.
    """
    from jtrans import api
    from jtrans.config.load import set_values

    limit = limit_of(setting)
    if not limit:
        return config
    values = config.model_dump(mode="json", exclude_none=True)
    schedule = config.training.schedule
    if schedule.has_end and schedule.updates is None and "training.max_updates" not in limit:
        values["training"]["schedule"]["updates"] = config.training.max_updates
    for key in LIMITS:
        values["training"].pop(key, None)
    set_values(values, list(limit.items()), "--setting")
    return api.load_recipe(values)


def is_of_recipe(row: Row, result: RowResult) -> bool:
    """Return whether a result is what `jtrans score` gives for a run of its recipe.

    The settings are those of the recipe, the training text is not a part of the task's, and the
    checkpoint that the row names was translated, usually the best.
    """
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    if result.checkpoint != row.checkpoint() or result.data["is_subset"]:
        return False
    recipe = load_config(row.recipe_for(result.task), system_configs())
    return not settings_differ(result.config, plain(recipe))
