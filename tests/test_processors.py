"""How many processors others use, and how long threads wait for work."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from jtrans import processors


def test_running_processes_are_counted_but_not_this_one() -> None:
    computing = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", computing]) for _ in range(2)]
    try:
        deadline = time.monotonic() + 20
        while processors.others_running() < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_without_proc_nobody_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "Path", lambda *_: (_ for _ in ()).throw(OSError))
    assert processors.others_running() == 0


@pytest.mark.parametrize(
    ("running", "threads", "idle"), [(0, 4, True), (0, 5, False), (2, 2, True), (3, 2, False)]
)
def test_idle_processors_suffice_for_all_threads(
    running: int, threads: int, idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(processors, "others_running", lambda: running)
    assert processors.are_idle(threads) == idle


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that says nothing about waiting, and two threads on two processors."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(processors, "SECONDS_BETWEEN", 0)
    return monkeypatch


@pytest.mark.parametrize(
    ("running", "looks"),
    [([0], 20_000), ([1, 1, 1], 1_000), ([2, 1, 0], 20_000)],  # others run for a moment
)
def test_threads_wait_long_only_where_nobody_needs_their_processors(
    running: list[int], looks: int, environment: pytest.MonkeyPatch
) -> None:
    samples = iter(running)
    environment.setattr(processors, "others_running", lambda: next(samples))
    processors.let_threads_wait()
    assert os.environ["GOMP_SPINCOUNT"] == str(looks)


@pytest.mark.parametrize("name", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_waiting_that_is_set_stays(name: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv(name, "7")
    processors.let_threads_wait()
    assert os.environ.get("GOMP_SPINCOUNT", "7") == "7"
    assert os.environ[name] == "7"
