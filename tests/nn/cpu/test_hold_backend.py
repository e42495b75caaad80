"""The library of float32 products while threads hold it or change it for a while."""

from __future__ import annotations

import torch

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


def test_changes_of_the_library_need_not_end_in_the_order_in_which_they_began() -> None:
    before = torch.get_float32_matmul_precision()
    onednn, mkl = matmul_backend._backend("oneDNN"), matmul_backend._backend("MKL")
    onednn.__enter__()
    mkl.__enter__()
    assert not matmul_backend.is_onednn_used()
    onednn.__exit__(None, None, None)
    assert not matmul_backend.is_onednn_used()
    mkl.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before
