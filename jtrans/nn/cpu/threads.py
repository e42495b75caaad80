"""How many threads a CPU uses for products of few rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# Up to here sharing a product out to threads that sleep takes longer than computing it. On two
# cores of a Xeon one thread was 1.3 times as fast as two with the 75 rows of a single sentence in
# a joint model of width 256, twice as fast in bf16, and 1.3 times with 80 rows of a Transformer; on
# an EPYC two were faster from 20 rows of a Transformer on. `jtrans bench decode` shows it with
# OMP_NUM_THREADS=1, and with 2 and this at 0.
FEW_ROWS = 128


@contextlib.contextmanager
def threads_for(rows: int, device: torch.device) -> Iterator[None]:
    """Compute with one thread if all products have few rows, and with all threads otherwise.

    Args:
        rows: of the largest products.
        device: where they are computed.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or rows > FEW_ROWS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
