"""The library of float32 products is held while anyone holds it."""

from __future__ import annotations

from jtrans.nn.cpu import matmul_backend
from jtrans.nn.cpu.matmul_backend import hold_backend


def test_holders_need_not_end_in_the_order_in_which_they_began() -> None:
    first, second = hold_backend(), hold_backend()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert matmul_backend._holders == 1
    second.__exit__(None, None, None)
    assert matmul_backend._holders == 0
