"""The processors of this machine: how many this process may use, and how many others use now.

A product divided among threads takes a small model some 50 us. If the threads slept between two
products, waking them would take as long, so they wait for work in a loop. That pays only while no
other process wants their processors: then training is 1.1 to 1.2 times as fast and a single
sentence is translated 1.3 to 2.5 times as fast as with threads that sleep early. When two processes
waited like this on the same two cores, each interrupted the other's products: training together was
half as fast, and single sentences took ten times as long.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

# How often OpenMP's threads (libgomp) look for work before they sleep: for about 0.3 ms, longer
# than the pauses between products, and for 15 us on a machine that is shared.
LOOKS_FOR_WORK = 20_000
LOOKS_WHEN_SHARED = 1_000

SAMPLES, SECONDS_BETWEEN = 3, 0.002  # several, as a process may run only for a moment


def available_cpus() -> int:
    """Count the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
