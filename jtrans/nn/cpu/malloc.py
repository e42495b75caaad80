"""How the C library allocates memory for large tensors."""

from __future__ import annotations

import contextlib
import ctypes
import sys


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks: fresh pages for every large tensor cost more than the work."""
    if not sys.platform.startswith("linux"):
        return
    trim_threshold, mmap_threshold = -1, -3  # from malloc.h
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 32 * 2**20)  # the largest it takes
        libc.mallopt(trim_threshold, 2**31 - 1)
