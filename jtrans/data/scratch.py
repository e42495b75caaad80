"""Arrays that are larger than memory should hold: written in parts to a file, then mapped."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class ScratchArray:
    """A flat array in a temporary file, which disappears with it.

    The file is in the folder for temporary files of the system, or in that of TMPDIR.

    Args:
        dtype: of its items.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile(prefix="jtrans-")  # noqa: SIM115 - it stays open
        self._count = 0

    def append(self, part: NDArray[Any]) -> None:
        """Write the next items."""
        self._file.write(np.ascontiguousarray(part, self._dtype).data)
        self._count += part.size

    def read(self) -> NDArray[Any]:
        """Return all items; nothing is appended afterwards."""
        if not self._count:
            return np.zeros(0, self._dtype)
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype)
