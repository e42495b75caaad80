"""How much memory is available, and refusing what does not fit before Linux kills the process."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jtrans.nn import memory
from jtrans.nn.attention import attention_weights
from jtrans.nn.beam_cache import BeamCache, KeyValueCache
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.feed_forward import FeedForward

CPU = torch.device("cpu")
GB = 10**9


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine with 8 GiB available and no control groups."""
    write(tmp_path / "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8388608 kB\n")
    return tmp_path


def little(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: available)


def test_a_model_whose_weights_exceed_memory_is_refused_before_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    little(monkeypatch, memory.RESERVE + 2_400_000)
    with memory.within_memory():
        layers = [torch.nn.Linear(500, 500) for _ in range(2)]
    assert len(layers) == 2
    with memory.within_memory():  # one matrix under two names counts once
        tied = torch.nn.Linear(700, 700, bias=False)
        torch.nn.Linear(1, 1).weight = tied.weight
    with (
        pytest.raises(MemoryError, match=r"need 3 MB or more, 2 MB are"),
        memory.within_memory(),
    ):
        layers = [torch.nn.Linear(500, 500) for _ in range(3)]
    torch.nn.Linear(1000, 1000)  # not counted behind the block


def test_without_control_groups_the_machine_counts(machine: Path) -> None:
    assert memory.available_memory(machine) == 8 * 2**30


def test_swap_counts_too(machine: Path) -> None:
    write(machine / "proc/meminfo", "MemAvailable: 1024 kB\nSwapFree: 1024 kB\n")
    assert memory.available_memory(machine) == 2 * 2**20


@pytest.mark.parametrize("limited", ["", "jobs", "jobs/17"])
def test_the_limit_of_any_group_above_the_process_holds(machine: Path, limited: str) -> None:
    write(machine / "proc/self/cgroup", "1:name=systemd:/\n0::/jobs/17\n")
    for group in ("", "jobs", "jobs/17"):
        folder = machine / "sys/fs/cgroup" / group
        write(folder / "memory.max", "3000000\n" if group == limited else "max\n")
        write(folder / "memory.current", "2000000\n")
        write(folder / "memory.stat", "anon 1\ninactive_file 400000\nactive_file 100000\n")
    assert memory.available_memory(machine) == 1_500_000


def test_groups_of_version_1_are_read(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "4:cpu,memory:/docker/x\n")
    folder = machine / "sys/fs/cgroup/memory"  # a container sees its own group at the root
    write(folder / "memory.limit_in_bytes", "5000000")
    write(folder / "memory.usage_in_bytes", "4000000")
    write(folder / "memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n")
    assert memory.available_memory(machine) == 1_200_000


def test_the_own_limit_of_the_process_holds(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "proc/self/status", "Name: python\nVmSize:\t 1000 kB\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (5_000_000, -1))
    assert memory.available_memory(machine) == 5_000_000 - 1_024_000


def test_a_system_that_does_not_say_is_not_asked_again(tmp_path: Path) -> None:
    assert memory.available_memory(tmp_path) is None


def test_here_there_is_some_memory() -> None:
    available = memory.available_memory()
    assert available is None or available > 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 4]"),
    ],
)
def test_a_failed_allocation_is_recognised(error: Exception) -> None:
    assert memory.is_out_of_memory(error)
    assert memory.describe(error)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), ValueError("out of memory")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not memory.is_out_of_memory(error)


def test_a_refused_request_is_described_in_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    little(monkeypatch, 3 * GB)
    try:
        torch.empty(2**60)
    except RuntimeError as error:
        text = memory.describe(error)
    assert text == f"{2**62 / 1e9:,.1f} GB were needed at once, 3.0 GB are available"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 MB"), (38_400_000, "38 MB"), (10**8, "0.1 GB"), (3 * GB, "3.0 GB")]
)
def test_little_memory_is_given_in_megabytes(size: int, text: str) -> None:
    assert memory.gigabytes(size) == text


def test_only_large_requests_on_a_cpu_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    little(monkeypatch, 2 * GB)
    memory.require_memory(GB, CPU, "weights")
    memory.require_memory(9 * GB, torch.device("cuda"), "weights")
    with pytest.raises(MemoryError, match=r"weights need 9\.0 GB, 1\.7 GB are available"):
        memory.require_memory(9 * GB, CPU, "weights")
    monkeypatch.setattr(memory, "available_memory", lambda: pytest.fail("asked"))
    memory.require_memory(memory.SMALLEST_CHECKED - 1, CPU, "weights")


def test_attention_over_a_long_line_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    little(monkeypatch, GB)
    q = torch.zeros(1, 1, 1, 4).expand(500, 1, 1000, 4)
    with pytest.raises(MemoryError, match=r"attention weights need 4\.0 GB"):
        attention_weights(q, q, bias=None)


def test_a_wide_feed_forward_network_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    little(monkeypatch, GB)
    x = torch.zeros(1, 1, 8).expand(1000, 1000, 8)
    with pytest.raises(MemoryError, match=r"hidden layers need 4\.1 GB"), torch.no_grad():
        FeedForward(8, 512, SharedDropout(0.0))(x)


def test_a_cache_asks_for_all_layers_before_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("jtrans.nn.beam_cache.require_memory", lambda size, *_: asked.append(size))
    cache = BeamCache.empty(3, 2, 1, CPU)
    for _ in range(70):
        cache.advance()
        for layer in cache.layers:
            layer.append(*torch.zeros(2, 2, 4, 1, 8))
    slot = 2 * 2 * 4 * 8 * 4  # keys and values of 2 sentences, 4 heads of 8 features
    # the first 64 slots of three layers; then 66 more each, while one layer is copied
    assert asked == [3 * 64 * slot, (3 * 66 + 64) * slot]


def test_a_long_cache_grows_by_a_quarter() -> None:
    cache, capacities = KeyValueCache(), []
    for _ in range(1500):
        cache.append(*torch.zeros(2, 1, 1, 1, 1))
        capacities.append(cache.capacity)
    assert all(
        capacity <= 1.26 * slots for slots, capacity in enumerate(capacities, 1) if slots > 1100
    )


@pytest.mark.thorough
def test_a_process_does_not_inherit_the_memory_of_the_one_that_started_it() -> None:
    large = torch.ones(2**30, dtype=torch.uint8)
    code = "from jtrans.nn.memory import most_memory_used as most; print(most())"
    used = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = memory.most_memory_used()
    assert ours is not None
    assert 2**24 < int(used.stdout) < large.nbytes < ours
