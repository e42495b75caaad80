"""The depth and the width of a configuration, and configurations of other sizes."""

from __future__ import annotations

from typing import Any

from jtrans.config import Config, ScalableSizes, SystemConfig, build_config
from jtrans.errors import ConfigError
from jtrans.models.zoo import SYSTEMS, system_configs
from jtrans.scaling.solve import StackSize


def scalable_sizes(config: Config) -> ScalableSizes:
    """Return how the system of a configuration is scaled.

    Raises:
        ConfigError: the system has no depth and width to scale, or declares settings that it does
            not have.
    """
    sizes = config.model.scalable_sizes
    if sizes is None:
        scalable = [
            name
            for name, entry in SYSTEMS.items()
            if entry.config_class().model_validate({"system": name, "width": 256}).scalable_sizes
        ]
        raise ConfigError(
            f"{config.model.system} cannot be scaled"
            + (" with these settings" if config.model.system in scalable else "")
            + ": it declares no stack of layers with an FFN in each",
            where="model.system",
            hint=f"systems that can be scaled, with their default settings: {', '.join(scalable)}",
            kind="scaling.no-depth",
        )
    if fault := _fault_of(sizes, config.model):
        raise ConfigError(
            f"{config.model.system} declares {fault}",
            where="scalable_sizes",
            hint="docs/adding-a-system.md shows what a system declares to be scaled",
            kind="scaling.no-depth",
        )
    return sizes


def _fault_of(sizes: ScalableSizes, model: SystemConfig) -> str | None:
    """Return what is wrong with the declared sizes of a system, None if nothing is."""
    stacks: Any = sizes.stacks  # a plugin's, whose types may not have been checked
    if not isinstance(stacks, (tuple, list)):
        return "stacks that are not a tuple: a tuple of one has a comma, (LayerStack(...),)"
    keys = [*(stack.key for stack in stacks), sizes.ffn_width, sizes.width]
    absent = [key for key in keys if not isinstance(getattr(model, key, None), int)]
    if absent:
        return f"the setting {absent[0]}, which it does not have"
    grows = all(min(each.attention, each.ffn) >= 0 for each in stacks)
    if not (grows and any(each.ffn for each in stacks)):
        return "no stack of layers with FFNs"
    return None


def stack_sizes(config: Config) -> list[StackSize]:
    """Return the sizes of all stacks of a configuration."""
    stacks = scalable_sizes(config).stacks
    return [StackSize(getattr(config.model, s.key), s.attention, s.ffn) for s in stacks]


def layer_counts(config: Config) -> dict[str, int]:
    """Return the layers of every stack by the name of its setting."""
    return {stack.key: getattr(config.model, stack.key) for stack in scalable_sizes(config).stacks}


def ffn_width(config: Config) -> int:
    """Return F, the feed-forward width."""
    return int(getattr(config.model, scalable_sizes(config).ffn_width))


def size_settings(config: Config) -> list[str]:
    """Return depth and width as settings, each ``model.key=number``."""
    sizes = {**layer_counts(config), scalable_sizes(config).ffn_width: ffn_width(config)}
    return [f"model.{key}={number}" for key, number in sizes.items()]


def width_ratio(config: Config) -> float:
    """Return w = F/E."""
    return ffn_width(config) / _width(config)


def _width(config: Config) -> int:
    return int(getattr(config.model, scalable_sizes(config).width))


def resized(config: Config, *, more_layers: int = 0, more_width: int = 0) -> Config:
    """Return a configuration with more layers in every stack, and F larger by multiples of E.

    The recipe's expected scores are left out, as they hold for the original sizes.

    Raises:
        ConfigError: sizes that the system does not allow.
    """
    values = config.model_dump(mode="json", exclude_none=True)
    values.pop("expect", None)
    for key, count in layer_counts(config).items():
        values["model"][key] = count + more_layers
    name = scalable_sizes(config).ffn_width
    values["model"][name] = ffn_width(config) + more_width * _width(config)
    return build_config(values, system_configs(), where="the scaled sizes")
