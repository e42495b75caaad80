"""The place of this process among those that train together, as set by its launcher.

torch's launcher and others (srun, mpirun) number the processes in environment variables.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from jtrans.errors import ConfigError
from jtrans.files import write_bytes

LAUNCHER = "JTRANS_LAUNCHER"  # id and folder of the process that started this one as a rank
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Place:
    """The place of a process among those that train together."""

    rank: int  # its number, counted from 0
    count: int  # how many there are
    local_rank: int  # its number among those of its machine
    local_count: int  # how many are on its machine
    restarts: int  # how often the launcher has started them again


def place_of_process() -> Place | None:
    """Return the place of this process, None if it trains alone.

    Raises:
        ConfigError: the variables contradict each other.
    """
    if not all(os.environ.get(name) for name in NEEDED):
        return None
    rank, count = _number("RANK"), _number("WORLD_SIZE")
    _number("MASTER_PORT")
    local_rank = _number("LOCAL_RANK", rank)
    local_count = _number("LOCAL_WORLD_SIZE", count)
    if not (rank < count and local_rank < local_count <= count):
        values = (f"{name}={os.environ.get(name)}" for name in (*NEEDED[:2], "LOCAL_RANK"))
        raise ConfigError(
            f"there is no rank {rank} among {count} processes",
            where=" ".join(values),
            hint="start all processes with torchrun or --processes, or unset RANK and WORLD_SIZE",
            kind="distributed.world-size",
        )
    return Place(rank, count, local_rank, local_count, _number("TORCHELASTIC_RESTART_COUNT", 0))


def _number(name: str, default: int | None = None) -> int:
    value = os.environ.get(name)
    if value is None and default is not None:
        return default
    if value is None or not value.isdecimal():
        raise ConfigError(
            f"{name} must be a number, not {value!r}",
            where=name,
            hint="start the processes with torchrun, or unset RANK and WORLD_SIZE",
            kind="distributed.world-size",
        )
    return int(value)


def say_started() -> None:
    """Report the id of this process to the launcher, which may ask it to stop from now on."""
    if (file := _launcher_file("pid")) is not None:
        write_bytes(file, str(os.getpid()).encode(), is_durable=False)


def say_ended(code: int, *, is_final: bool) -> int:
    """Report to the launcher how this process ends.

    Args:
        code: its exit code.
        is_final: whether another start would end in the same way.

    Returns:
        The exit code that makes the launcher start it again, or not.
    """
    file = _launcher_file("code")
    if file is None or not is_final:
        return code
    write_bytes(file, str(code).encode(), is_durable=False)
    return 0


def launch_id() -> str | None:
    """Return an id that a launch keeps over restarts; None for a process that trains alone."""
    if place_of_process() is None:
        return None
    named = os.environ.get("TORCHELASTIC_RUN_ID", "none")  # also torchrun's default
    here = f"{socket.gethostname()}:{os.getppid()}"
    return os.environ.get(LAUNCHER) or (here if named == "none" else named)


def launcher_process() -> int | None:
    """Return the id of the jtrans process that launched this rank; None for other launchers."""
    launcher = os.environ.get(LAUNCHER)
    return int(launcher.partition(":")[0]) if launcher else None


def _launcher_file(ending: str) -> Path | None:
    launcher, rank = os.environ.get(LAUNCHER), os.environ.get("RANK")
    if not launcher or not rank:
        return None
    return Path(launcher.partition(":")[2], f"{rank}.{ending}")
