"""Memory: how much is available, whether an error means that it ran out, and early refusals.

Linux overcommits memory, and kills a process that uses more than there is. So the few large
allocations are compared with the available memory first: a `MemoryError` can be handled.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from jtrans.processors import control_groups

SMALLEST_CHECKED = 2**28  # bytes; a check takes 0.1 ms, writing this much a hundred times as long
RESERVE = 2**28  # bytes left for everything that is not checked

_FAILURES = re.compile(
    r"out of memory|can't allocate memory|not enough memory|bad_alloc|ALLOC_FAILED"
    r"|Storage size calculation overflowed",
    re.IGNORECASE,
)
_REQUESTED = re.compile(r"tried to allocate (\d+) bytes")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error is a failed allocation, on a GPU or a CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and bool(_FAILURES.search(str(error)))


def is_too_large(error: BaseException) -> bool:
    """Return whether an error in building a model means that its sizes exceed memory or int64."""
    if isinstance(error, OverflowError) or is_out_of_memory(error):
        return True
    words = ("overflow", "storage size", "invalid shape")
    is_of_torch = isinstance(error, (RuntimeError, TypeError))
    return is_of_torch and any(word in str(error).lower() for word in words)


def describe(error: BaseException) -> str:
    """Return one line about a failed allocation, with its numbers."""
    text = str(error).strip()
    if requested := _REQUESTED.search(text):  # torch's allocator for CPUs
        available = available_memory()
        rest = "" if available is None else f", {gigabytes(available)} are available"
        return f"{gigabytes(int(requested[1]))} were needed at once{rest}"
    return text.splitlines()[0] if text else "no memory is left"


def require_memory(size: int, device: torch.device, purpose: str) -> None:
    """Check, on a CPU, that `size` more bytes are available; a GPU's allocator does so itself.

    Raises:
        MemoryError: fewer are available; the message gives both sizes.
    """
    if device.type != "cpu" or torch.compiler.is_compiling() or size < SMALLEST_CHECKED:
        return
    available = available_memory()
    if available is not None and size + RESERVE > available:
        usable = gigabytes(max(0, available - RESERVE))
        raise MemoryError(f"{purpose} need {gigabytes(size)}, {usable} are available")


@contextlib.contextmanager
def within_memory() -> Iterator[None]:
    """Count the weights of a model that is built in the block, and stop before they fill memory.

    Raises:
        MemoryError: they need more than the available memory; the message gives both sizes.
    """
    available, size, counted = available_memory(), 0, set[int]()

    def count(_: torch.nn.Module, __: str, weight: torch.nn.Parameter | None) -> None:
        nonlocal size
        if weight is None or weight.device.type != "cpu" or id(weight) in counted:
            return
        counted.add(id(weight))  # one matrix may be embedding and output
        size += weight.nbytes
        if available is not None and size + RESERVE > available:
            usable = gigabytes(max(0, available - RESERVE))
            raise MemoryError(f"the weights need {gigabytes(size)} or more, {usable} are available")

    hook = torch.nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def gigabytes(size: int) -> str:
    """Return a number of bytes as text, in gigabytes, or megabytes if it is small."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.0f} MB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process can still use; None without Linux's `/proc/meminfo`.

    The smallest of what the machine's memory and swap, the limits of the process's control groups
    (a container, a batch job) and its own limit (`ulimit -v`) leave. Cached files count as
    available.
    """
    machine = _numbers(root / "proc/meminfo")
    if "MemAvailable" not in machine:
        return None
    import resource  # absent on Windows, for which None was returned

    limits = [1024 * (machine["MemAvailable"] + machine.get("SwapFree", 0))]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space - 1024 * _numbers(root / "proc/self/status").get("VmSize", 0))
    for group, is_version_2 in control_groups("memory", root):
        limits += _left_in_group(group, is_version_2)
    return max(0, min(limits))


def most_memory_used() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not report it.

    On Linux not from `getrusage`, whose peak a program inherits from the process that starts it: a
    small one then seems as large as its parent.
    """
    peak = process_memory("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


def process_memory(key: str) -> int | None:
    """Return a size of this process in bytes, by its name in Linux's `/proc/self/status`."""
    size = _numbers(Path("/proc/self/status")).get(key)
    return None if size is None else 1024 * size


def _left_in_group(group: Path, is_version_2: bool) -> list[int]:
    names = ["max", "current"] if is_version_2 else ["limit_in_bytes", "usage_in_bytes"]
    values = [text for name in names for text in _lines(group / f"memory.{name}")[:1]]
    if len(values) < 2 or not all(text.isdecimal() for text in values):  # "max", or no such file
        return []
    statistics = _numbers(group / "memory.stat")
    prefix = "total_" if "total_inactive_file" in statistics else ""
    cached = sum(statistics.get(f"{prefix}{kind}_file", 0) for kind in ("inactive", "active"))
    return [int(values[0]) - int(values[1]) + cached]


def _numbers(path: Path) -> dict[str, int]:
    """Read lines such as ``MemTotal: 123 kB`` or ``active_file 123``."""
    fields = [line.replace(":", " ").split() for line in _lines(path)]
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdecimal()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
