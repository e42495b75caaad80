"""Which device computes, in which precision, and through which matrix-product library."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from jtrans.errors import ConfigError, did_you_mean

_log = logging.getLogger(__name__)
_CHOICES = ("auto", "cpu", "cuda", "mps")
_DEVICE = re.compile(r"(?P<kind>cpu|cuda|mps)(?::(?P<index>0|[1-9][0-9]{0,2}))?")
_FP32_ERROR = 1e-5  # relative error of a real float32 product of 256 terms stays far below


@dataclass(frozen=True)
class DeviceFacts:
    """What was found out about a device.

    Args:
        name: for example ``cpu`` or the GPU's name.
        threads: CPU threads that compute.
        products: library of float32 matrix products: ``MKL``, ``oneDNN``, or ``cuBLAS``.
    """

    name: str
    threads: int
    products: str

    def describe(self, precision: str) -> str:
        """Return one line, for example ``cpu, 2 threads, fp32 by oneDNN``."""
        unit = "thread" if self.threads == 1 else "threads"
        threads = f", {self.threads} {unit}" if self.name == "cpu" else ""
        by = f" by {self.products}" if precision == "fp32" and self.products else ""
        return f"{self.name}{threads}, {precision}{by}"


def resolve_device(name: str | None = None) -> torch.device:
    """Return the device of a name; ``auto`` takes JTRANS_DEVICE, else a GPU when there is one.

    Raises:
        ConfigError: an unknown device, or one this machine does not have.
    """
    chosen = name or "auto"
    where = "--device"
    if chosen == "auto":
        chosen, where = os.environ.get("JTRANS_DEVICE", "auto") or "auto", "JTRANS_DEVICE"
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    match = _DEVICE.fullmatch(chosen)
    if match is None:
        near = did_you_mean(chosen.partition(":")[0], _CHOICES)
        raise ConfigError(
            f"unknown device: {chosen}",
            where=where,
            hint=f"did you mean {near}?" if near else f"one of: {', '.join(_CHOICES)}",
            kind="config.unknown-device",
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    missing = (match["kind"] == "cuda" and int(match["index"] or 0) >= count) or (
        match["kind"] == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise ConfigError(
            f"this machine has no device {chosen}",
            where=where,
            hint="use --device cpu",
            kind="config.absent-device",
        )
    return torch.device(chosen)


def resolve_precision(device: torch.device, precision: str) -> str:
    """Return ``fp32`` or ``bf16``; ``auto`` means bf16 on a GPU that has it, else fp32."""
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" and has_fast_bf16(device) else "fp32"


def has_fast_bf16(device: torch.device) -> bool:
    """Say whether the device computes in bf16 by instructions of its own."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
        facts = ask()  # older versions of torch cannot tell
        return bool(facts.get("avx512_bf16") or facts.get("amx_bf16"))
    return False


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return the context in which a forward pass runs in `precision`."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


@functools.cache
def prepare_device(device: torch.device, *, for_training: bool = False) -> DeviceFacts:
    """Make the device ready and say what it is; on a CPU choose the faster float32 products.

    The choice changes results by rounding only: a library that is not real float32 here (on
    some processors the same switch computes in bfloat16) is not taken.

    Args:
        device: what to compute on.
        for_training: oneDNN prepares itself for every new shape of a product. Training reuses
            the shapes of a pass in every layer, so there it need only be a twentieth faster;
            in a search the shapes change from step to step.
    """
    facts = _prepare(device, 1.05 if for_training else 1.6)
    _log.info("device %s", facts.describe("fp32"))
    return facts


def _prepare(device: torch.device, margin: float) -> DeviceFacts:
    if device.type == "cuda":
        return DeviceFacts(torch.cuda.get_device_name(device), 0, "cuBLAS")
    if device.type != "cpu":
        return DeviceFacts(device.type, 0, "")
    # oneDNN keeps code and buffers for every shape it meets, 1,024 of them by default: sentence
    # lengths vary, so that is gigabytes. With too few, every layer of a training pass prepares
    # its products again. Read when oneDNN is first used.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    _keep_freed_memory()
    return DeviceFacts("cpu", torch.get_num_threads(), _choose_products(margin))


def _choose_products(margin: float) -> str:
    if not torch.backends.mkldnn.is_available():
        return "BLAS"
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1024, 256, generator=generator)
    w = torch.randn(1024, 256, generator=generator)
    exact = x.double() @ w.double().t()
    seconds = {"highest": float("inf"), "medium": float("inf")}
    for _ in range(10):  # in turns, so that other work on the machine slows both alike
        for precision in seconds:
            torch.set_float32_matmul_precision(precision)
            seconds[precision] = min(seconds[precision], _seconds(x, w))
    product = torch.nn.functional.linear(x, w)  # oneDNN's: "medium" was last
    is_fp32 = float((product.double() - exact).norm() / exact.norm()) < _FP32_ERROR
    if is_fp32 and margin * seconds["medium"] < seconds["highest"]:
        return "oneDNN"
    torch.set_float32_matmul_precision("highest")
    return "MKL"


def use_products(facts: DeviceFacts, products: str | None) -> DeviceFacts:
    """Compute with the library an earlier start of a run chose, so that it goes on bit by bit.

    Which of two nearly equal libraries is faster changes with what else the machine does.

    Args:
        facts: of the device.
        products: what the run recorded; None, or a library that is not here, leaves the choice.

    Returns:
        The facts with the library in use.
    """
    switch = {"MKL": "highest", "oneDNN": "medium"}
    if facts.products not in switch:
        return facts
    torch.set_float32_matmul_precision(switch[facts.products])
    if products == facts.products or products not in switch:
        return facts
    torch.set_float32_matmul_precision(switch[products])
    if not _is_real_float32():  # the run comes from another machine
        torch.set_float32_matmul_precision(switch[facts.products])
        return facts
    return replace(facts, products=products)


@contextlib.contextmanager
def short_products(dtype: torch.dtype) -> Iterator[None]:
    """Within it, batches of small float32 products on a CPU go to oneDNN where that is exact.

    For the products of attention over short lines it is two to four times as fast as MKL,
    whichever is the better for large ones.
    """
    before = torch.get_float32_matmul_precision()
    if dtype != torch.float32 or before != "highest" or not is_onednn_real_float32():
        yield
        return
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def is_onednn_real_float32() -> bool:
    """Say whether oneDNN's float32 products are that here; with AMX they are bfloat16's."""
    if not torch.backends.mkldnn.is_available():
        return False
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        return _is_real_float32()
    finally:
        torch.set_float32_matmul_precision(before)


def _is_real_float32() -> bool:
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))
    exact = x.double() @ x.double().t()
    product = torch.nn.functional.linear(x, x)
    return float((product.double() - exact).norm() / exact.norm()) < _FP32_ERROR


def _seconds(x: torch.Tensor, w: torch.Tensor) -> float:
    start = time.perf_counter()
    torch.nn.functional.linear(x, w)
    return time.perf_counter() - start


def _keep_freed_memory() -> None:
    """Let glibc keep freed blocks: fresh pages for every large tensor cost more than the work."""
    if not sys.platform.startswith("linux"):
        return
    trim_threshold, mmap_threshold = -1, -3  # from malloc.h
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 32 * 2**20)  # the largest it takes
        libc.mallopt(trim_threshold, 2**31 - 1)
