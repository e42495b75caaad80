"""The number of CPU threads: as many as there are processors, or one for products of few rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from jtrans.processors import are_idle, available_cpus

# Products of up to this many rows take less time than threads lose by waiting for one that has no
# processor of its own. Beside another process one thread translated single sentences 1.7 to 3 times
# as fast as two that sleep soon, and up to 16 times as fast as two that wait long; alone on two
# cores two were 1.3 times as fast with the 5 rows of a Transformer's beam and 1.5 times with the 75
# of a joint model's (width 256, fp32).
FEW_ROWS = 128


def usable_threads() -> int:
    """Limit torch's threads to the processors that this process may use; return their number.

    Torch counts all of the machine's: a small Transformer in a control group with the time of one
    of two processors trained 1.4 times as fast with one thread as with torch's two. OMP_NUM_THREADS
    in the environment takes precedence.
    """
    if "OMP_NUM_THREADS" not in os.environ and available_cpus() < torch.get_num_threads():
        torch.set_num_threads(available_cpus())
    return torch.get_num_threads()


@contextlib.contextmanager
def threads_for(rows: int, device: torch.device) -> Iterator[None]:
    """Compute with one thread if all products have few rows and other processes need processors.

    The number of threads may change the last digits of a product.

    Args:
        rows: number of rows of the largest products.
        device: where they are computed.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or rows > FEW_ROWS or are_idle(threads):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
