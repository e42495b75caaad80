"""The output of `jtrans info RUN RUN ...`: runs side by side, and the settings that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jtrans.cli.run_info import run_values, state_text
from jtrans.cli.tables import print_table
from jtrans.config.load import flat_settings
from jtrans.evaluation.names import distinct_names
from jtrans.runs import Run

NUMBERS = ("parameters", "updates", "epochs", "time", "valid loss", "valid BLEU")


def comparison_values(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the facts about several runs, as the object of --json.

    Raises:
        ConfigError: a run is given twice.
    """
    names = distinct_names([run.name for run in runs], [run.folder for run in runs])
    return {
        "runs": [{"name": name, **run_values(run)} for name, run in zip(names, runs, strict=True)],
        "differences": _differences(runs),
    }


def show_comparison(values: Mapping[str, Any]) -> None:
    """Print the values of `comparison_values`: a row per run, then a row per differing setting."""
    runs = values["runs"]
    print_table(["run", *NUMBERS, "state"], [_row(run) for run in runs], right=NUMBERS)
    if differences := values["differences"]:
        print()
        rows = [[key, *map(_text, settings)] for key, settings in differences.items()]
        print_table(["setting", *(run["name"] for run in runs)], rows)


def _differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Return the settings, by dotted names, that are not the same in all runs.

    The value is None in runs where it is unset, or whose system does not have the setting.
    """
    from jtrans.models.zoo import system_configs

    configs = [run.trained_config(system_configs()) for run in runs]
    settings = [
        {
            "data": run.info.get("data"),
            "from": run.initial_name,
            "keep_optimiser": run.info.get("keep_optimiser", False),
            **flat_settings(config.model.model_dump(mode="json"), "model."),
            **flat_settings(config.training.model_dump(mode="json"), "training."),
        }
        for run, config in zip(runs, configs, strict=True)
    ]
    keys = dict.fromkeys(key for each in settings for key in each)
    values_of = {key: [each.get(key) for each in settings] for key in keys}
    return {key: row for key, row in values_of.items() if any(value != row[0] for value in row)}


def _row(run: Mapping[str, Any]) -> list[str]:
    from jtrans.cli.train.table import duration

    losses, scores = (
        [each[name] for each in run["validations"] if isinstance(each.get(name), int | float)]
        for name in ("valid_loss", "bleu")
    )
    return [
        run["name"],
        f"{run['parameters']:,}" if run["parameters"] else "-",
        f"{run['updates']:,}",
        f"{run['epochs']:,}",
        duration(run["seconds"]),
        f"{min(losses):.3f}" if losses else "-",
        f"{max(scores):.1f}" if scores else "-",
        state_text(run),
    ]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)
