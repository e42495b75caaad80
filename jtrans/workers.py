"""Worker processes for a sequence of jobs, with the results in order."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from typing import TypeVar

from jtrans.errors import WorkError
from jtrans.processors import STOPS, available_cpus

Job = TypeVar("Job")
Result = TypeVar("Result")

# Jobs submitted ahead for each worker, so that none is idle and few jobs are in memory.
AHEAD = 2
NO_SEMAPHORES = "processes cannot share semaphores in /dev/shm"


def default_workers(warn: Callable[[str], None]) -> int:
    """Return the number of processors; 1, with a warning, if semaphores cannot be shared."""
    try:
        multiprocessing.Lock()
    except OSError as error:  # a sandbox or a container without a writable /dev/shm
        warn(f"{NO_SEMAPHORES}, {error.strerror}: using a single process")
        return 1
    return available_cpus()


@contextlib.contextmanager
def run_jobs(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    workers: int,
    hint: str = "run again with --workers 1: it continues where this stopped",
    begins_anew: bool = False,
) -> Iterator[Iterator[Result]]:
    """Yield the results of `function` for all jobs, in order; the processes end with the block.

    Args:
        function: at the top level of a module, so that it can be sent to another process.
        jobs: read one by one as needed, so that they need not all fit into memory.
        workers: number of processes; 1 runs the jobs in this one.
        hint: what to do when a worker dies.
        begins_anew: start fresh interpreters instead of forking, as GPUs require.

    Raises:
        WorkError: a worker process died, or processes cannot share semaphores on this machine.
    """
    if workers <= 1:
        yield map(function, jobs)
        return
    # Forked workers start fast and need no importable main module. Forking is safe on Linux if this
    # process has not computed anything with torch, whose threads the copy would lack. On other
    # systems it is unsafe or not available, and the platform's default is used.
    inherited = "fork" if sys.platform == "linux" else None
    context = multiprocessing.get_context("spawn" if begins_anew else inherited)
    try:
        is_unwanted = context.Event()
    except OSError as error:
        raise WorkError(
            f"{NO_SEMAPHORES}, {error.strerror}",
            hint="use a single process: --workers 1, or --gpus 1",
            kind="work.semaphores",
        ) from error
    numbers = context.SimpleQueue()
    for number in range(workers):
        numbers.put(number)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=context,
        initializer=_begin,
        initargs=(os.getpid(), is_unwanted, numbers),
    )
    try:
        if context.get_start_method() == "fork":
            # fork before the thread that reads the jobs may hold the lock of a pipe, which would
            # stay locked in the copies
            with _signals_later():
                first = pool.submit(worker_number)
            first.result()
        yield _results(pool, function, jobs, ahead=AHEAD * workers)
    except BrokenProcessPool as error:
        raise WorkError(
            "a worker process died (out of memory?)", hint=hint, kind="work.worker"
        ) from error
    except BaseException:  # mostly Ctrl-C: unfinished jobs are no longer wanted
        is_unwanted.set()
        # If a worker ends while it writes a result, the pool would wait forever for the rest.
        # With this copy of the pipe closed, reading ends when the last worker does.
        pool._result_queue._writer.close()  # type: ignore[attr-defined]
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _results(
    pool: ProcessPoolExecutor, function: Callable[[Job], Result], jobs: Iterable[Job], *, ahead: int
) -> Iterator[Result]:
    """Yield results in order, each as soon as it is ready, even if no further job is there yet."""
    submitted: queue.Queue[Future[Result] | None] = queue.Queue()
    room = threading.Semaphore(ahead)
    is_over = threading.Event()

    def submit() -> None:
        try:
            for job in jobs:
                room.acquire()
                if is_over.is_set():
                    return
                submitted.put(pool.submit(function, job))
        except BaseException as error:  # raised by reading the jobs, or by a pool that is shut down
            failed: Future[Result] = Future()
            failed.set_exception(error)
            submitted.put(failed)
        submitted.put(None)

    threading.Thread(target=submit, daemon=True).start()
    try:
        while (future := submitted.get()) is not None:
            result = future.result()
            room.release()
            yield result
    finally:
        is_over.set()
        room.release()


def worker_number() -> int:
    """Return the number of this worker process, from 0; 0 in other processes, too."""
    return _own_number[0]


_own_number = [0]


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Delay signals while processes are forked: Python drops exceptions in its fork hooks."""
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _begin(parent: int, is_unwanted: Event, numbers: SimpleQueue[int]) -> None:
    _own_number[0] = numbers.get()
    sys.stdout = sys.stderr  # results go to the parent; what libraries print must not join them
    # Ctrl-C reaches the whole process group, but only the parent may react: it ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_exit_early, args=(parent, is_unwanted), daemon=True).start()


def _exit_early(parent: int, is_unwanted: Event) -> None:
    """End this worker once its results are not needed or its parent has been killed."""
    while os.getppid() == parent and not is_unwanted.is_set():
        time.sleep(0.2)
    os._exit(1)
