"""`jtrans train` in several processes: this one launches them, or is one of them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.stop_signals import StopSignals
from jtrans.digits import whole_number
from jtrans.errors import ConfigError, JtransError, how_many, usage_error

if TYPE_CHECKING:
    from jtrans.training.distributed.place import Place

MOST_PROCESSES = 16  # or four per processor, if that is more


def count_processes(processes: int | None, gpus: str | None, device: str | None) -> int | None:
    """Return the number of processes that the options ask for, None without such an option.

    Raises:
        ConfigError: options that exclude each other, or GPUs that are not there.
    """
    if processes is not None and gpus is not None:
        raise usage_error("--processes is for the CPU, --gpus for GPUs", "leave one of them out")
    if gpus is not None:
        return count_gpus(gpus, device, instead="--processes N")
    if processes is not None and device not in (None, "auto", "cpu"):
        raise usage_error(
            f"--processes computes on the CPU, not on {device}", "use --gpus N for GPUs"
        )
    return processes


def count_gpus(gpus: str, device: str | None, *, instead: str) -> int:
    """Return the number of GPUs that ``--gpus`` asks for.

    Args:
        gpus: its value.
        device: that of ``--device``.
        instead: the option to suggest on a machine without GPUs.

    Raises:
        ConfigError: there are not as many GPUs, or both options exclude each other.
    """
    import torch

    if device not in (None, "auto", "cuda"):
        raise usage_error(f"--gpus {gpus} excludes --device {device}", "leave one of them out")
    available = torch.cuda.device_count() if torch.cuda.is_available() else 0
    count = available if gpus == "all" else whole_number(gpus)
    if count is None or (gpus != "all" and count < 1):
        raise usage_error(f"--gpus must be a number or all, not {gpus}", "--gpus all", "--gpus")
    if not 0 < count <= available:
        raise ConfigError(
            f"this machine has {how_many(available, 'GPU')}"
            if available
            else "this machine has no GPU",
            where=f"--gpus {gpus}",
            hint="--gpus all uses all of them" if available else f"{instead} uses the CPU",
            kind="config.absent-device",
        )
    return count


def launch(count: int, *, max_restarts: int) -> int:
    """Run this command in `count` processes, and return its exit code.

    Raises:
        ConfigError: far more processes than processors.
        WorkError: a process died once too often.
    """
    from jtrans.processors import available_cpus
    from jtrans.training.distributed.launch import launch as launch_processes

    most = max(MOST_PROCESSES, 4 * available_cpus())
    if count > most:
        raise usage_error(
            f"{count:,} processes for {how_many(available_cpus(), 'processor')}, while each "
            "process needs memory for the whole model",
            f"use at most {most}; more than one per processor is seldom faster",
            where="--processes",
        )
    if count > available_cpus():
        console.warn(
            f"{count} processes share {how_many(available_cpus(), 'processor')}: expect no speed-up"
        )
    with StopSignals() as signals:
        return launch_processes(
            console.settings.arguments,
            count,
            max_restarts=max_restarts,
            report=console.warn,
            stop_signal=lambda: signals.number,
        )


def has_begun(run: Path, place: Place | None) -> bool:
    """Return whether this launch created the run before its processes were restarted.

    `--restart` deletes a run from before the launch, not the one that the launch created.
    """
    from jtrans.runs import Run
    from jtrans.training.distributed.place import launch_id

    if place is None or not place.restarts or not Run.exists(run):
        return False
    try:
        return bool(Run(run).info.get("launch") == launch_id())
    except JtransError:  # damaged: to be deleted
        return False


def begin(place: Place, count: int | None, *, max_restarts: int) -> None:
    """Check that `count` processes were started, and silence all but the first.

    Raises:
        ConfigError: another number was started.
    """
    if count not in (None, place.count):
        raise ConfigError(
            f"{place.count} processes were started, the options ask for {count}",
            where="WORLD_SIZE",
            hint="with torchrun leave out --processes and --gpus",
            kind="distributed.world-size",
        )
    # torch, which is not loaded yet, would log the stack whenever a connection ends
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if place.rank > 0:
        console.settings.quiet = True
        logging.getLogger("jtrans").setLevel(logging.ERROR)
    elif place.restarts:
        console.warn(
            f"a process was lost: all start again from the last checkpoint (restart "
            f"{place.restarts} of {max_restarts})"
        )
