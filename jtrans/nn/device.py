"""The device that computes, its precision and its matmul backend."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from jtrans.errors import ConfigError, how_many, name_hint
from jtrans.nn.cpu import matmul_backend
from jtrans.nn.cpu.malloc import keep_freed_memory
from jtrans.nn.cpu.threads import usable_threads
from jtrans.nn.gpu.operator import missing_triton
from jtrans.processors import chosen_device

_log = logging.getLogger(__name__)
_PRECISIONS = ("auto", "fp32", "bf16", "int8")


@dataclass(frozen=True)
class DeviceInfo:
    """A device that is ready for use."""

    name: str  # for example ``cpu`` or the GPU's name
    threads: int  # CPU threads that compute
    matmul_backend: str  # the library for float32 products: ``MKL``, ``oneDNN`` or ``cuBLAS``
    note: str = ""  # a remark for the user

    def describe(self, precision: str) -> str:
        """Return one line, for example ``cpu, 2 threads, fp32 by oneDNN``."""
        threads = f", {how_many(self.threads, 'thread')}" if self.name == "cpu" else ""
        backend = self.matmul_backend if precision == "fp32" else ""
        by = f" by {backend}" if backend else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.name}{threads}, {precision}{by}{note}"


def device_name(device: torch.device) -> str:
    """Return a GPU's name, such as ``NVIDIA H100 80GB HBM3``, or the kind of another device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def resolve_device(name: str | torch.device | None) -> torch.device:
    """Return the device of a name; ``auto`` or None: JTRANS_DEVICE, else a GPU if there is one.

    Raises:
        ConfigError: the device is unknown, or this machine does not have it.
    """
    chosen, where = chosen_device(None if name is None else str(name))
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = chosen.partition(":")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    missing = (kind == "cuda" and int(index or 0) >= count) or (
        kind == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise ConfigError(
            f"this machine has no device {chosen}",
            where=where,
            hint="use --device cpu",
            kind="config.absent-device",
        )
    return torch.device(chosen)


def resolve_precision(device: torch.device, precision: str, *, for_training: bool = False) -> str:
    """Return ``fp32``, ``bf16`` or ``int8``; ``auto`` means bf16 on a GPU that has it, else fp32.

    Args:
        device: where to compute.
        precision: one of these, or ``auto``.
        for_training: replace bf16 by fp32 on devices without instructions for bf16, on which it
            takes up to ten times as long: recipes choose bf16 for its speed. A search keeps it, so
            that the quality of bf16 on other devices can be measured.

    Raises:
        ConfigError: an unknown precision; ``int8`` on a device other than a CPU, or without
            kernels for it.
    """
    if precision not in _PRECISIONS:
        raise ConfigError(
            f"unknown precision: {precision}",
            where="--precision",
            hint=name_hint(str(precision), _PRECISIONS),
            kind="config.unknown-precision",
        )
    has_kernels = torch.backends.quantized.engine != "none"
    if precision == "int8" and (device.type != "cpu" or not has_kernels):
        is_cpu = device.type == "cpu"
        reason = "this torch has no kernels for it" if is_cpu else f"not on {device}"
        raise ConfigError(
            f"int8 weights are for decoding on a CPU: {reason}",
            where="--precision",
            hint="--precision bf16" if is_cpu else "--precision bf16, or add --device cpu",
            kind="config.value",
        )
    if precision == "bf16" and _emulates_bf16(device):
        where = "GPU" if device.type == "cuda" else "processor"
        lacking = f"this {where} has no instructions for bf16"
        if for_training:
            _log.warning("%s: fp32 is used, which is faster", lacking)
            return "fp32"
        _log.warning("%s: --precision fp32 is faster", lacking)
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" and has_fast_bf16(device) else "fp32"


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bf16."""
    if device.type == "cuda":
        # torch checks the current device only
        with contextlib.nullcontext() if device.index is None else torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        capabilities = cpu_capabilities()
        return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return False


def _emulates_bf16(device: torch.device) -> bool:
    is_known = device.type == "cuda" or (device.type == "cpu" and bool(cpu_capabilities()))
    return is_known and not has_fast_bf16(device)


def cpu_capabilities() -> dict[str, Any]:
    """Return which instructions the CPU has, by torch's names; empty if torch is too old."""
    get_capabilities: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    return get_capabilities()


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return the context in which a forward pass runs in `precision`.

    Raises:
        ConfigError: ``int8``, which only prepared forms of models support.
    """
    if precision == "fp32":
        return contextlib.nullcontext()
    if precision == "int8":
        raise ConfigError(
            "int8 weights are for decoding only",
            where="--precision",
            hint="--precision fp32",
            kind="config.value",
        )
    return torch.autocast(device.type, dtype=torch.bfloat16)


def prepare_device(device: torch.device, *, for_training: bool = False) -> DeviceInfo:
    """Make the device ready and describe it; on a CPU choose the faster matmul backend.

    The choice changes results by rounding only.

    Args:
        device: where to compute.
        for_training: whether oneDNN is chosen even if it is only a twentieth faster. It has to
            prepare every new shape of a product: in training all layers of a micro-batch share
            their shapes, in a search the shapes change from step to step.
    """
    info = _prepared(device, for_training=for_training)
    # a setting of the whole process, which a run or another device may have changed since the
    # measurement; the one that selects oneDNN would let a GPU compute in TF32
    backend = matmul_backend.PRECISIONS.get(info.matmul_backend, "highest")
    torch.set_float32_matmul_precision(backend)
    return info


@functools.cache
def _prepared(device: torch.device, *, for_training: bool) -> DeviceInfo:
    # every translation waits for the measurement; with a wide margin it may be coarse
    margin, rounds = (1.05, 10) if for_training else (1.6, 3)
    info = _prepare(device, margin, rounds)
    _log.info("device %s", info.describe("fp32"))
    return info


def _prepare(device: torch.device, margin: float, rounds: int) -> DeviceInfo:
    threads = usable_threads()
    if device.type == "cuda":
        _keep_kernels()
        fault = missing_triton()
        note = f"attention without the kernels of jtrans: {fault}" if fault else ""
        return DeviceInfo(device_name(device), 0, "cuBLAS", note)
    if device.type != "cpu":
        return DeviceInfo(device.type, 0, "")
    # oneDNN caches code and buffers for each shape, by default of 1,024 shapes: as sentence lengths
    # vary, that is gigabytes. With too small a cache every layer of a micro-batch would prepare its
    # products again. oneDNN reads the limit when it is first used.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    keep_freed_memory()
    return DeviceInfo("cpu", threads, matmul_backend.take_faster_backend(margin, rounds))


def _keep_kernels() -> None:
    """Move Triton's kernel cache to a temporary folder if the home folder is not writable."""
    folder = Path(os.environ.get("TRITON_HOME", "~"), ".triton", "cache")
    try:
        folder.expanduser().mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # as in a container run by an arbitrary user
        if "TRITON_CACHE_DIR" not in os.environ:
            # private to this process, as code is loaded from it
            kernels = os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="jtrans-triton-")
            atexit.register(shutil.rmtree, kernels, ignore_errors=True)


def use_matmul_backend(info: DeviceInfo, recorded: str | None) -> DeviceInfo:
    """Compute with the backend that a run recorded, if that is exact on this machine.

    Args:
        info: the result of `prepare_device`.
        recorded: the run's backend; None keeps the current one.

    Returns:
        The device with the backend in use.
    """
    backend = matmul_backend.take_backend(recorded, info.matmul_backend)
    return replace(info, matmul_backend=backend)


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished all its work, before time is measured."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def precise(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in at least float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
