"""How many processors others use, and how long threads wait for work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from jtrans import processors
from jtrans.nn.cpu import threads as cpu_threads


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a machine with eight processors, and this process in a container."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    write(tmp_path / "proc/self/cgroup", "1:name=systemd:/\n0::/pods/17\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("limits", "processors_left"),
    [
        ({}, 8),
        ({"": "max 100000", "pods": "max 100000", "pods/17": "max 100000"}, 8),
        ({"pods/17": "200000 100000"}, 2),
        ({"pods": "150000 100000", "pods/17": "max 100000"}, 2),  # rounded up
        ({"": "10000 100000"}, 1),
        ({"pods": "3200000 100000"}, 8),
    ],
)
def test_a_container_has_the_processors_that_it_gets_the_time_of(
    limits: dict[str, str], processors_left: int, machine: Path
) -> None:
    for group, limit in limits.items():
        write(machine / "sys/fs/cgroup" / group / "cpu.max", f"{limit}\n")
    assert processors.available_cpus(machine) == processors_left


@pytest.mark.parametrize(("quota", "processors_left"), [(-1, 8), (400_000, 4)])
def test_control_groups_of_version_1_limit_time_too(
    quota: int, processors_left: int, machine: Path
) -> None:
    write(machine / "proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/x\n")
    folder = machine / "sys/fs/cgroup/cpu"  # a container sees its own group at the root
    write(folder / "cpu.cfs_quota_us", f"{quota}\n")
    write(folder / "cpu.cfs_period_us", "100000\n")
    assert processors.available_cpus(machine) == processors_left


def test_groups_that_cannot_be_read_limit_nothing(machine: Path) -> None:
    (machine / "proc/self/cgroup").write_bytes(b"0\n\xff::/\n")
    assert processors.available_cpus(machine) == 8


@pytest.mark.parametrize(("cpus", "asked", "threads"), [(1, None, 1), (9, None, 3), (1, "3", 3)])
def test_torch_has_no_more_threads_than_processors(
    cpus: int, asked: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_threads, "available_cpus", lambda: cpus)
    monkeypatch.delenv("OMP_NUM_THREADS")
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert cpu_threads.usable_threads() == torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


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


def test_files_of_the_user_do_not_replace_modules_in_processes_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('of the user')\n", encoding="utf-8")
    (tmp_path / "jtrans.py").write_text("print('from the sources')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def version() -> str:
        command = [*processors.own_command(), "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    assert version().startswith("jtrans ")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as `python -m jtrans` has it
    assert version() == "from the sources\n"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_dead_process_that_nobody_has_reaped_is_not_alive() -> None:
    assert processors.is_alive(os.getpid())
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert processors.is_alive(process.pid)
    process.kill()
    deadline = time.monotonic() + 20
    while processors.is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, 0)  # it still has its number
    assert not processors.is_alive(process.pid)
    process.communicate()
    assert not processors.is_alive(process.pid)
