"""Yardsticks of the benchmarks: this machine's rate of matrix products, and peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path

import torch

from jtrans.models.base import TranslationModel
from jtrans.nn.device import wait_for
from jtrans.nn.memory import process_memory


def product_rate(model: TranslationModel, precision: str) -> float:
    """Return the FLOPs per second of products with a model's largest matrix, best of several.

    Vocabulary matrices are ignored.
    """
    device = model.device
    tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    vocabularies = {table.num_embeddings for table in tables}
    matrices = [p.shape for p in model.parameters() if p.dim() == 2]
    inner = [shape for shape in matrices if not vocabularies & set(shape)]
    F, E = max(inner or matrices, key=torch.Size.numel)
    rows = 2**17 if device.type == "cuda" else 2**12
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x, w = (torch.randn(shape, device=device, dtype=dtype) for shape in ((rows, E), (F, E)))
    best = float("inf")
    for _ in range(6):
        wait_for(device)
        start = time.perf_counter()
        hidden = torch.nn.functional.linear(x, w)
        torch.matmul(hidden, w)
        wait_for(device)
        best = min(best, time.perf_counter() - start)
    return 4.0 * rows * E * F / best


def release_memory() -> None:
    """Return freed memory to the system, so that it does not count."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def restart_peak(device: torch.device) -> bool:
    """Reset the peak of memory to what is in use now; return whether the system supports it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        # writing 5 resets the peak
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # not Linux
        return False
    return True


def peak_during(work: Callable[[], object], device: torch.device) -> int | None:
    """Return the peak bytes of `work` beyond those in use before it.

    None if the operating system does not report memory.
    """
    release_memory()
    if not restart_peak(device):
        return None
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    used = process_memory("VmRSS")
    work()
    peak = process_memory("VmHWM")
    return None if used is None or peak is None else peak - used
