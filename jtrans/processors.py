"""The processors of this machine: how many this process may use, and how many others use now.

A device other than these is chosen by its name (`chosen_device`), which needs no torch.

`own_command` starts further processes on them.

A product divided among threads takes a small model some 50 us. If the threads slept between two
products, waking them would take as long, so they wait for work in a loop. That pays only while no
other process wants their processors: then training is 1.1 to 1.2 times as fast and a single
sentence is translated 1.3 to 2.5 times as fast as with threads that sleep early. When two processes
waited like this on the same two cores, each interrupted the other's products: training together was
half as fast, and single sentences took ten times as long.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jtrans.errors import ConfigError, name_hint

_DEVICES = ("auto", "cpu", "cuda", "mps")
_DEVICE = re.compile(r"(cpu|cuda|mps)(:(0|[1-9][0-9]{0,2}))?")
# Processes of one command: all are started at once, so that more are taken for a typing error.
MOST_WORKERS = 1024
# How often OpenMP's threads (libgomp) look for work before they sleep: for about 0.3 ms, longer
# than the pauses between products, and for 15 us on a machine that is shared.
LOOKS_FOR_WORK = 20_000
LOOKS_WHEN_SHARED = 1_000

SAMPLES, SECONDS_BETWEEN = 3, 0.002  # several, as a process may run only for a moment


def chosen_device(name: str | None) -> tuple[str, str]:
    """Return the name of the device that a user chose, and where; ``auto`` is JTRANS_DEVICE.

    Raises:
        ConfigError: there is no device of this name. Whether the machine has it is not checked.
    """
    chosen, where = name or "auto", "--device"
    if chosen == "auto":
        chosen, where = os.environ.get("JTRANS_DEVICE", "auto") or "auto", "JTRANS_DEVICE"
    if chosen != "auto" and not _DEVICE.fullmatch(chosen):
        raise ConfigError(
            f"unknown device: {chosen}",
            where=where,
            hint=name_hint(chosen.partition(":")[0], _DEVICES),
            kind="config.unknown-device",
        )
    return chosen, where


def available_cpus(root: Path = Path("/")) -> int:
    """Count the processors this process may use; in a container, those whose time it may use."""
    if not hasattr(os, "sched_getaffinity"):  # not Linux
        return os.cpu_count() or 1
    shares = [_processors(*group) for group in control_groups("cpu", root)]
    return math.ceil(min([len(os.sched_getaffinity(0)), *shares]))


def control_groups(controller: str, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of Linux's groups that limit this process, and whether of version 2.

    A container or a batch job is such a group, and the limits of all groups above it hold, too.

    Args:
        controller: ``cpu`` or ``memory``.
        root: of the file system.
    """
    lines = []
    with contextlib.suppress(OSError, ValueError):
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        group = root / "sys/fs/cgroup" / (controller if controllers else "")
        for part in ["", *Path(path).parts[1:]]:
            group /= part
            yield group, not controllers


def _processors(group: Path, is_version_2: bool) -> float:
    """Return how many processors' time a control group has."""
    names = ["cpu.max"] if is_version_2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    with contextlib.suppress(OSError, ValueError):
        texts = [(group / name).read_text(encoding="utf-8") for name in names]
        quota, period = map(int, " ".join(texts).split())  # without a limit "max", or -1
        if quota > 0:
            return quota / period
    return math.inf


def are_idle(threads: int) -> bool:
    """Return whether other processes leave this number of the machine's processors idle now."""
    return others_running() + threads <= (os.cpu_count() or 1)


def others_running() -> int:
    """Count other processes' threads that run or are ready to; 0 if Linux does not report them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        ours = _own_running()  # counted first, as our waiting threads may soon fall asleep
        everywhere = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        return max(0, everywhere - ours)
    return 0


def _own_running() -> int:
    states = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states.count("R")


def let_threads_wait() -> None:
    """Set how long threads of torch wait for work; call it before torch is imported.

    GOMP_SPINCOUNT and OMP_WAIT_POLICY in the environment take precedence.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        return
    asked = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(asked) if asked.isdecimal() else available_cpus()
    looks = LOOKS_WHEN_SHARED
    for _ in range(SAMPLES):
        if are_idle(threads):
            looks = LOOKS_FOR_WORK
            break
        time.sleep(SECONDS_BETWEEN)
    os.environ["GOMP_SPINCOUNT"] = str(looks)


def own_command() -> list[str]:
    """Return the beginning of a command that starts jtrans anew, with the modules of this process.

    ``python -m`` alone imports from the working directory first, which the command ``jtrans`` does
    not: a user may have a ``random.py`` there.
    """
    begins_here = sys.path[:1] in ([""], [str(Path.cwd())])
    return [sys.executable, *([] if begins_here else ["-P"]), "-m", "jtrans"]


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine runs; not if it is dead, but not yet reaped."""
    if sys.platform == "win32":
        return True  # asking would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to somebody else
    return process_status(pid)[:1] != ["Z"]


def process_status(pid: int) -> list[str]:
    """Return state, number of the parent and more of a process; empty where /proc is missing."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return []
