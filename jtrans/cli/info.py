"""`jtrans info`: versions, devices and folders, for bug reports; or runs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jtrans import __version__
from jtrans.cli import console
from jtrans.cli.options import JSON, argument
from jtrans.cli.tables import print_table

_PACKAGES = (
    "torch",
    "numpy",
    "safetensors",
    "pydantic",
    "sacremoses",
    "subword-nmt",
    "sacrebleu",
    "jieba",
    "typer",
    "rich",
    "triton",
)


def info(
    runs: list[str] | None = argument(
        "RUN", "Describe this run, or compare several.", default=None
    ),
    as_json: bool = JSON,
) -> None:
    """Print versions, devices and folders for a bug report, or how runs were trained.

    [bold]Examples[/bold]

    jtrans info

    jtrans info @last

    jtrans info runs/mine-*     # a row for each run, and the settings that differ
    """
    if runs:
        _show_runs(runs, as_json=as_json)
        return
    from jtrans.config import RECIPES
    from jtrans.models.zoo import installed_systems
    from jtrans.runs import RUNS

    systems = installed_systems()
    values = {
        "jtrans": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "systems": {f"system {item.point.name}": item.distribution for item in systems},
        "devices": _devices(),
        "folders": {
            "program": str(Path(sys.prefix)),
            "package": str(RECIPES.parent),
            "working folder": str(Path.cwd()),
            "runs": f"{RUNS.resolve()}{'' if RUNS.is_dir() else ' (does not exist yet)'}",
        },
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith("JTRANS_")
        },
    }
    if as_json:
        console.print_json(values)
        return
    print_table(["about", "value"], _rows(values))


def _show_runs(names: Sequence[str], *, as_json: bool) -> None:
    """Print a description of a run, or a comparison of several."""
    from jtrans.cli.run_comparison import comparison_values, show_comparison
    from jtrans.cli.run_info import run_values, show_run
    from jtrans.runs import find_run

    runs = [find_run(name) for name in names]
    if len(runs) == 1:
        described = run_values(runs[0])
        console.print_json(described) if as_json else show_run(described)
        return
    compared = comparison_values(runs)
    console.print_json(compared) if as_json else show_comparison(compared)


def _rows(values: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += [
                [key, "not installed" if entry is None else entry] for key, entry in value.items()
            ]
        elif isinstance(value, list):
            rows += [[name.removesuffix("s"), entry] for entry in value]
        else:
            rows.append([name, value])
    return rows


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[str]:
    """Describe every device; the CPU's line names the matmul backend.

    Call it once per process: it sets the matmul backend and leaves that of training active.
    """
    import torch

    from jtrans.nn.device import (
        has_fast_bf16,
        prepare_device,
        resolve_precision,
        use_matmul_backend,
    )
    from jtrans.training.setup.matmul_backend import usual_backend

    names = ["cpu"]
    names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    lines = []
    for name in names:
        device = torch.device(name)
        precision = resolve_precision(device, "auto")
        decoding = prepare_device(device)
        training = prepare_device(device, for_training=True)
        if device.type == "cpu":
            training = use_matmul_backend(training, usual_backend(training))
        described = decoding.describe(precision)
        if training.matmul_backend != decoding.matmul_backend:
            described += f" ({training.matmul_backend} in training)"
        if device.type == "cpu" and has_fast_bf16(device):
            described += "; has instructions for --precision bf16"
        lines.append(described if name == "cpu" else f"{name}: {described}")
    return lines
