"""Arrays too large for memory: written to a file in parts, then mapped."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from jtrans.files import disk_errors

IN_MEMORY = 2**24  # bytes; smaller arrays are not worth a file


def _temporary_errors() -> contextlib.AbstractContextManager[None]:
    return disk_errors(Path(tempfile.gettempdir()))


def scratch_zeros(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return zeros to be overwritten, [count], in a temporary file if they are many.

    The system may move parts of it to the disk; the file disappears with the array.

    Raises:
        WorkError: the disk has no room for it.
    """
    size = count * np.dtype(dtype).itemsize
    if size <= IN_MEMORY or not hasattr(os, "posix_fallocate"):
        return np.zeros(count, dtype)
    with _temporary_errors(), tempfile.TemporaryFile(prefix="jtrans-") as file:
        # a full disk raises here; later, a mapped page without room would kill the process
        os.posix_fallocate(file.fileno(), 0, size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), dtype)


class ScratchArray:
    """A flat array in a temporary file, which disappears with it.

    The file is in the system's folder for temporary files, or in the folder TMPDIR.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile(prefix="jtrans-")  # noqa: SIM115 - it stays open
        self._count = 0

    def append(self, part: NDArray[Any]) -> None:
        """Write the next items, [n].

        Raises:
            WorkError: the disk has no room for them; so does `read`.
        """
        with _temporary_errors():
            self._file.write(np.ascontiguousarray(part, self._dtype).data)
        self._count += part.size

    def read(self) -> NDArray[Any]:
        """Return all items, [items]; nothing may be appended afterwards."""
        if not self._count:
            return np.zeros(0, self._dtype)
        with _temporary_errors():
            self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype)
