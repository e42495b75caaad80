"""The library that multiplies float32 matrices on a CPU: MKL, or oneDNN if that is as exact.

On some processors the switch that selects oneDNN makes it compute in bfloat16; there it is unused.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator

import torch
from torch import Tensor

FP32_ERROR = 1e-5  # far above the relative error of a true float32 product of 256 terms
PRECISIONS = {"MKL": "highest", "oneDNN": "medium"}  # torch's switch between them

_lock = threading.Lock()
_base = PRECISIONS["MKL"]  # the switch to restore after the last open context of `_backend`
_wanted: list[str] = []  # the libraries of the open contexts of all threads
_holders = 0  # open contexts of `hold_backend`, in which the switch stays as it is


def take_faster_backend(margin: float, rounds: int) -> str:
    """Use the faster of MKL and oneDNN from now on; return its name, ``BLAS`` without oneDNN.

    Args:
        margin: how many times as fast as MKL oneDNN must be to be chosen.
        rounds: number of products to time with each; the fastest counts.
    """
    if not torch.backends.mkldnn.is_available():
        return "BLAS"
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1024, 256, generator=generator)
    w = torch.randn(1024, 256, generator=generator)
    seconds = dict.fromkeys(PRECISIONS, float("inf"))
    for _ in range(rounds):  # in turns, so that other work on the machine slows both alike
        for backend, precision in PRECISIONS.items():
            torch.set_float32_matmul_precision(precision)
            seconds[backend] = min(seconds[backend], product_seconds(x, w))
    if margin * seconds["oneDNN"] < seconds["MKL"] and is_real_float32():  # oneDNN is in use
        return "oneDNN"
    torch.set_float32_matmul_precision(PRECISIONS["MKL"])
    return "MKL"


def take_backend(recorded: str | None, measured: str) -> str:
    """Use the backend with which a run started, so that it continues bit for bit.

    Which of two nearly equal backends is faster varies with the load of the machine.

    Args:
        recorded: the run's backend; if None or not available, `measured` is used.
        measured: the faster backend here.

    Returns:
        The backend in use.
    """
    if measured not in PRECISIONS:
        return measured
    if recorded in PRECISIONS and recorded != measured:
        torch.set_float32_matmul_precision(PRECISIONS[recorded])
        if is_real_float32():  # it may not be, if the run comes from another machine
            return recorded
    torch.set_float32_matmul_precision(PRECISIONS[measured])
    return measured


def is_onednn_used() -> bool:
    """Return whether oneDNN is the library in use."""
    return torch.get_float32_matmul_precision() != PRECISIONS["MKL"]


@contextlib.contextmanager
def hold_backend() -> Iterator[None]:
    """Keep the current library within the context, for tiny and short products, too.

    Threads that compute at the same time need this, as the switch belongs to the whole process.
    """
    global _holders
    with _lock:
        _holders += 1  # a count: contexts of threads need not end in the order in which they began
    try:
        yield
    finally:
        with _lock:
            _holders -= 1


def onednn_for_short_products(dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    """Compute batches of small float32 products by oneDNN within the context, where it is exact.

    For the products of attention over short lines it is two to four times as fast as MKL,
    whichever library is faster for large products.
    """
    if _holders or dtype != torch.float32 or is_onednn_used() or not is_onednn_real_float32():
        return contextlib.nullcontext()
    return _backend("oneDNN")


def mkl_for_tiny_products() -> contextlib.AbstractContextManager[None]:
    """Compute float32 products by MKL within the context, whichever library is in use.

    oneDNN prepares every new shape, which for the products of a search step takes longer than the
    product: a batch of 4 products, 5 x 64 by 64 x 40, took 29 us with MKL and 78 with oneDNN; two
    of 256 x 60 numbers took 20 and 52 us.

    The switch belongs to the whole process: threads whose results must not depend on each other
    run within one such context around all of them.
    """
    return _backend("MKL") if is_onednn_used() and not _holders else contextlib.nullcontext()


@functools.cache
def is_onednn_real_float32() -> bool:
    """Return whether oneDNN's float32 products are exact here; with AMX they are in bfloat16."""
    if not torch.backends.mkldnn.is_available():
        return False
    with _backend("oneDNN"):
        return is_real_float32()


@contextlib.contextmanager
def _backend(name: str) -> Iterator[None]:
    global _base
    with _lock:
        if not _wanted:
            _base = torch.get_float32_matmul_precision()
        _wanted.append(name)
        torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        with _lock:  # contexts of two threads need not end in the order in which they began
            _wanted.remove(name)
            left = PRECISIONS[_wanted[-1]] if _wanted else _base
            torch.set_float32_matmul_precision(left)


def is_real_float32() -> bool:
    """Return whether float32 products are exact with the backend in use."""
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))
    exact = x.double() @ x.double().t()
    product = torch.nn.functional.linear(x, x)
    return float((product.double() - exact).norm() / exact.norm()) < FP32_ERROR


def product_seconds(x: Tensor, w: Tensor) -> float:
    """Time one product with the backend in use."""
    start = time.perf_counter()
    torch.nn.functional.linear(x, w)
    return time.perf_counter() - start
