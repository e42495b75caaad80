"""The library that multiplies float32 matrices in new runs: always the same one on a machine.

Libraries round differently, and which of two nearly equal ones is faster depends on the load. So
the one that was faster on the idle machine is kept in the user's cache, and the same command gives
the same weights again.
"""

from __future__ import annotations

import contextlib
import os
import platform

import torch

from jtrans.errors import JtransError
from jtrans.files import cache_folder, read_json, text_digest, write_json
from jtrans.nn.device import DeviceInfo
from jtrans.processors import are_idle


def usual_backend(device: DeviceInfo) -> str:
    """Return the library for new runs on a CPU: the one that was faster when this machine was idle.

    Args:
        device: with the library that is faster now, which is kept if no other process runs.
    """
    machine = f"{platform.node()}, {os.cpu_count()} processors"
    key = {"device": f"{machine}, {device.threads} threads", "torch": torch.__version__}
    path = cache_folder() / "matmul-backend" / f"{text_digest(repr(key))[:16]}.json"
    with contextlib.suppress(JtransError, OSError, LookupError, TypeError):
        known = read_json(path)
        if known["key"] == key and isinstance(known["backend"], str):
            return known["backend"]
    if are_idle(device.threads):
        with contextlib.suppress(JtransError, OSError):  # a cache that cannot be written
            write_json(path, {"key": key, "backend": device.matmul_backend})
    return device.matmul_backend
