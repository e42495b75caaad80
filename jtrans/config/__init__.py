"""The typed configuration: its schema, how a file becomes one, and what is said about mistakes."""

from jtrans.config.faults import explain_fault
from jtrans.config.load import (
    RECIPES,
    build_config,
    find_config,
    load_config,
    merge_values,
    recipe_names,
)
from jtrans.config.schema import (
    Config,
    ConfigSection,
    Count,
    DecodingConfig,
    KeepConfig,
    Rate,
    ScheduleConfig,
    StopConfig,
    SystemConfig,
    TrainingConfig,
)

__all__ = [
    "RECIPES",
    "Config",
    "ConfigSection",
    "Count",
    "DecodingConfig",
    "KeepConfig",
    "Rate",
    "ScheduleConfig",
    "StopConfig",
    "SystemConfig",
    "TrainingConfig",
    "build_config",
    "explain_fault",
    "find_config",
    "load_config",
    "merge_values",
    "recipe_names",
]
