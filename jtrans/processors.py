"""Processors, devices and processes of this machine, without torch.

`let_threads_wait` sets how long OpenMP's threads spin before they sleep. A matrix product of a
small model takes some 50 us, and waking sleeping threads takes as long, so they wait for work in a
loop. That pays only while no other process wants their processors: then training is 1.1 to 1.2
times as fast, and translating single sentences 1.3 to 2.5 times as fast, as with threads that sleep
early. When two processes waited like this on the same two cores, each interrupted the other's
products: training both was half as fast, and single sentences took ten times as long.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jtrans.errors import ConfigError, name_hint

_DEVICES = ("auto", "cpu", "cuda", "mps")
_DEVICE = re.compile(r"(cpu|cuda|mps)(:(0|[1-9][0-9]{0,2}))?")
# Processes of one command. All are started at once: a larger number must be a typing error.
MOST_WORKERS = 1024
# the signals that ask a process to end; SIGHUP: its terminal was closed, or the connection lost
STOPS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
# How often OpenMP's threads (libgomp) look for work before they sleep: for about 0.3 ms, longer
# than the pauses between products, or for 15 us on a machine that is shared.
LOOKS_FOR_WORK = 20_000
LOOKS_WHEN_SHARED = 1_000

SAMPLES, SECONDS_BETWEEN = 3, 0.002  # several, as another process may run only for a moment


def chosen_device(name: str | None) -> tuple[str, str]:
    """Return the device that a user chose, and the option or variable that names it.

    For ``auto`` or None, this is the environment variable JTRANS_DEVICE, else ``auto``.

    Raises:
        ConfigError: the name is not of a device. Whether the machine has the device is not checked.
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
    """Count the processors this process may use, within the CPU quota of its container."""
    if not hasattr(os, "sched_getaffinity"):  # not Linux
        return os.cpu_count() or 1
    shares = [_processors(*group) for group in control_groups("cpu", root)]
    return math.ceil(min([len(os.sched_getaffinity(0)), *shares]))


def control_groups(controller: str, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each control group (cgroup) of this process, and whether it is of v2.

    A container or a batch job is such a group; the limits of all groups above it hold, too.

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
    """Return the CPU quota of a control group, in processors; infinity without a quota."""
    names = ["cpu.max"] if is_version_2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    with contextlib.suppress(OSError, ValueError):
        texts = [(group / name).read_text(encoding="utf-8") for name in names]
        quota, period = map(int, " ".join(texts).split())  # quota "max" or -1: no limit
        if quota > 0:
            return quota / period
    return math.inf


def are_idle(threads: int) -> bool:
    """Return whether other processes currently leave `threads` processors of the machine idle."""
    return others_running() + threads <= (os.cpu_count() or 1)


def others_running() -> int:
    """Count runnable threads of other processes; 0 if the system does not report them."""
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
    """Set how long torch's OpenMP threads wait for work; call it before torch is imported.

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
    """Return the beginning of a command that starts jtrans, importing from where this process does.

    Unlike the command ``jtrans``, ``python -m`` imports from the working directory first, where a
    user may have a ``random.py``; the option -P prevents that.
    """
    imports_from_here = sys.path[:1] in ([""], [str(Path.cwd())])
    return [sys.executable, *([] if imports_from_here else ["-P"]), "-m", "jtrans"]


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine is running; a zombie is not."""
    if sys.platform == "win32":
        return True  # os.kill would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to somebody else
    return process_status(pid)[:1] != ["Z"]


def process_status(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return []
