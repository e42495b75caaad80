"""Worker processes: results in order, and a number for each worker."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import pytest
from plugins.command_line import environment

from jtrans.errors import WorkError
from jtrans.processors import available_cpus
from jtrans.workers import default_workers, run_jobs, worker_number


@pytest.fixture
def no_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make semaphores fail as they do where /dev/shm cannot be written."""

    def fail(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("_multiprocessing.SemLock", fail)


def worker_and_job(job: int) -> tuple[int, int, int]:
    """Return the job, the worker's number and its process."""
    time.sleep(0.02)
    return job, worker_number(), os.getpid()


def test_workers_that_inherit_nothing_have_numbers_of_their_own() -> None:
    with run_jobs(worker_and_job, range(12), workers=2, begins_anew=True) as results:
        done = list(results)
    assert [job for job, *_ in done] == list(range(12))
    workers = {(number, process) for _, number, process in done}
    assert {number for number, _ in workers} <= {0, 1}
    assert len(workers) == len({number for number, _ in workers}) and os.getpid() not in {
        process for _, process in workers
    }


def test_a_result_does_not_wait_for_the_next_job() -> None:
    seen = threading.Event()
    was_seen = []

    def jobs() -> Iterator[int]:
        yield 1
        was_seen.append(seen.wait(60))
        yield 2

    with run_jobs(worker_and_job, jobs(), workers=2) as results:
        assert next(results)[0] == 1
        seen.set()
        assert [job for job, *_ in results] == [2]
    assert was_seen == [True]


def test_an_error_of_the_jobs_comes_after_the_results_before_it() -> None:
    def jobs() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ValueError("line 4 is no text")

    done: list[int] = []
    with (
        pytest.raises(ValueError, match="line 4"),
        run_jobs(worker_and_job, jobs(), workers=2) as results,
    ):
        done.extend(job for job, *_ in results)
    assert done == [1, 2, 3]


def test_few_jobs_are_taken_ahead_and_none_after_the_end() -> None:
    taken = []

    def jobs() -> Iterator[int]:
        for job in range(1000):
            taken.append(job)
            yield job

    before = threading.active_count()
    with run_jobs(worker_and_job, jobs(), workers=2) as results:
        assert next(results)[0] == 0
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before and len(taken) < 10


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")
def test_ctrl_c_while_workers_are_forked_is_not_lost() -> None:
    script = """
import os, signal
from jtrans.workers import run_jobs
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    with run_jobs(abs, [1, 2], workers=2) as results:
        list(results)
except KeyboardInterrupt:
    raise SystemExit(130)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_worker_that_ends_while_it_writes_a_result_stops_nobody() -> None:
    script = """
import os, time
from multiprocessing import connection
from jtrans.workers import run_jobs

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

def work(path):
    if path:
        wait_for(path + ".first")  # a worker that writes keeps others from it

        def half(self, data, write=os.write):
            write(self._handle, bytes(data)[: len(data) // 2])
            open(path, "w").close()
            time.sleep(300)
        connection.Connection._send = half
    return "x" * 1000

path = os.environ["BEGUN"]
with run_jobs(work, ["", path], workers=2) as results:
    next(results)
    open(path + ".first", "w").close()
    wait_for(path)
    raise KeyboardInterrupt
"""
    with tempfile.TemporaryDirectory() as folder:
        own = environment(BEGUN=f"{folder}/begun")
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, env=own, timeout=60, check=False)
    assert b"KeyboardInterrupt" in done.stderr.splitlines()[-1]


def sleep(seconds: float) -> None:
    """Take a long time."""
    time.sleep(seconds)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_nobody_waits_for_jobs_that_are_not_wanted(begins_anew: bool) -> None:
    jobs = [0.0, *[300.0] * 5]
    started = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        run_jobs(sleep, jobs, workers=2, begins_anew=begins_anew) as results,
    ):
        next(results)
        raise KeyboardInterrupt
    assert time.monotonic() - started < 60


def print_and_return(text: str) -> str:
    print(text, flush=True)
    return text


@pytest.mark.parametrize("begins_anew", [False, True])
def test_what_a_worker_prints_is_no_result(
    begins_anew: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with run_jobs(print_and_return, ["printed"], workers=2, begins_anew=begins_anew) as results:
        assert list(results) == ["printed"]
    assert capfd.readouterr().out == ""


def test_without_semaphores_there_is_one_worker(no_semaphores: None) -> None:
    warnings: list[str] = []
    assert default_workers(warnings.append) == 1
    assert "cannot share semaphores" in warnings[0]
    with run_jobs(worker_and_job, range(2), workers=1) as results:
        assert [job for job, *_ in results] == [0, 1]


def test_more_workers_need_semaphores(no_semaphores: None) -> None:
    with (
        pytest.raises(WorkError, match=r"cannot share semaphores .*, Permission denied"),
        run_jobs(worker_and_job, range(2), workers=2),
    ):
        pass


def test_by_default_there_is_a_worker_for_each_processor() -> None:
    warnings: list[str] = []
    assert default_workers(warnings.append) == available_cpus()
    assert not warnings
