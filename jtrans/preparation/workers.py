"""What the steps of a preparation share: its request and folder, and processes for their jobs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jtrans.errors import WorkError
from jtrans.preparation.request import Request
from jtrans.progress import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")

# Jobs handed out ahead, for each worker: none is idle, and few jobs are in memory.
AHEAD = 2


def available_cpus() -> int:
    """Count the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Preparation:
    """One preparation, as its steps share it."""

    request: Request  # what to prepare, and how
    folder: Path  # the work folder
    workers: int  # number of processes
    progress: Progress  # receives what each step has to report
    step: Callable[[str], None]  # called with the name of each step when it ends


@contextlib.contextmanager
def run_jobs(
    function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
) -> Iterator[Iterator[Result]]:
    """Give the results of `function` for each job, in order; the processes end with the block.

    Args:
        function: at the top level of a module, so that it can be sent to another process.
        jobs: taken one by one as work goes on: they need not all fit into memory.
        workers: number of processes; 1 works in this one.

    Raises:
        WorkError: a worker process died.
    """
    if workers <= 1:
        yield map(function, jobs)
        return
    # Forked workers start at once and need no importable main module; elsewhere forking is not
    # safe or not there, and the platform's own default is right.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        yield _results(pool, function, jobs, ahead=AHEAD * workers)
    except BrokenProcessPool as error:
        raise WorkError(
            "a worker process died (out of memory?)",
            hint="run again with --workers 1: it continues where this stopped",
            kind="work.worker",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _results(
    pool: ProcessPoolExecutor, function: Callable[[Job], Result], jobs: Iterable[Job], *, ahead: int
) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    for job in jobs:
        waiting.append(pool.submit(function, job))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begin(parent: int) -> None:
    # Ctrl-C reaches the whole process group: only the parent reacts, and ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this worker when its parent is gone: a killed one cannot end its workers."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
