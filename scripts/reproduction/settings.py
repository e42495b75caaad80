"""The settings of a result, and which of them must agree with those of another result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jtrans.config import Config, build_config
from jtrans.errors import ConfigError
from jtrans.models.zoo import system_configs

# settings that may differ between the results of a row, as they change scores by rounding at most
FREE = ("training.seed", "training.keep.last", "training.compile", "training.graphs")
LATER = ("training.graphs",)  # settings that older results do not have
# settings of the translations in validations, which change no score if the loss decides
WATCHED = ("training.validate_sentences", "training.validate_samples", "training.validate_beam")
MOST_SHOWN = 3  # missing keys that an error names
# the limits of training that the settings of a job name, by setting
LIMITED = {"equal-time": "max_minutes", "equal-updates": "max_updates"}
SETTING = r"^(paper|equal-(time|updates):[1-9][0-9]{0,14})$"


def limit_named(setting: str) -> dict[str, int]:
    """Return the limit of training that a setting (`SETTING`) names; none for ``paper``."""
    name, _, limit = setting.partition(":")
    return {LIMITED[name]: int(limit)} if limit else {}


def plain(config: Config) -> dict[str, Any]:
    """Return a configuration as plain values, without its expected scores."""
    values = config.model_dump(mode="json", exclude_none=True)
    values.pop("expect", None)
    return values


def fault_of(config: Mapping[str, Any]) -> str | None:
    """Return in words what keeps plain values from being a whole configuration, or None."""
    try:
        whole = plain(build_config(config, system_configs(), where="config"))
    except ConfigError as error:
        return error.message
    different = (key for key in _different(config, whole) if key not in LATER)
    missing = [key for key in different if _is_missing(key, config)]
    shown = ", ".join(missing[:MOST_SHOWN])
    more = f" and {len(missing) - MOST_SHOWN} more" if len(missing) > MOST_SHOWN else ""
    return f"no {shown}{more}" if missing else None


def _is_missing(key: str, values: Any) -> bool:
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return True
        values = values[part]
    return False


def _different(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key in sorted({*old, *new}):
        ours, theirs = old.get(key), new.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            keys += _different(ours, theirs, f"{prefix}{key}.")
        elif ours != theirs:
            keys.append(f"{prefix}{key}")
    return keys


def settings_differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the settings in which two configurations differ and that may change scores."""
    free = free_settings(old, new)
    return [key for key in _different(old, new) if key not in free]


def free_settings(*configs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings that change no score, and so may differ between these configurations."""
    return (*FREE, *WATCHED) if all(map(_loss_decides, configs)) else FREE


def _loss_decides(config: Mapping[str, Any]) -> bool:
    training = config["training"]
    metrics = {training["best_metric"], training.get("stop", {}).get("metric", "valid-loss")}
    return metrics == {"valid-loss"} and not training["keep"].get("window")
