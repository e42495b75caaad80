"""Out-of-memory errors with advice for the user, and the peak memory in use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from jtrans.errors import WorkError


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error is a failed allocation, on a GPU or a CPU."""
    is_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return is_memory or "can't allocate memory" in str(error)


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Turn an allocation failure that halving micro-batches could not avoid into advice.

    Raises:
        WorkError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        detail = str(error).strip().splitlines()[0] if str(error) else "no detail"
        raise WorkError(
            f"out of memory, even with a micro-batch of one pair: {detail}",
            hint="--set training.recompute=layer needs the least memory; a smaller model, or a "
            "corpus prepared with a lower --max-length, needs less",
            kind="work.memory",
        ) from error


def peak_memory(device: torch.device) -> int:
    """Return the most memory used so far, in bytes: of the GPU, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
