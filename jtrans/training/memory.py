"""Running out of memory, as an error a user can act on; and how much was used."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from jtrans.errors import WorkError


@contextlib.contextmanager
def memory_errors(*, is_joint: bool) -> Iterator[None]:
    """Turn a failed allocation into advice on the budget that bounds memory.

    Raises:
        WorkError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        is_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        if not is_memory and "can't allocate memory" not in str(error):
            raise
        budget = "training.pass_joint=16384" if is_joint else "training.pass_tokens=1024"
        raise WorkError(
            f"out of memory: {str(error).strip().splitlines()[0] if str(error) else 'no detail'}",
            hint=f"smaller passes, same updates: --set {budget} --restart "
            "(jtrans train --dry-run shows what the largest pass needs)",
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
