"""Memory that the C library keeps: given back once a minute."""

from __future__ import annotations

import sys

import pytest
import torch

from jtrans.nn.cpu import malloc
from jtrans.nn.memory import process_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
@pytest.mark.thorough
def test_holes_between_tensors_are_given_back_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    malloc.keep_freed_memory()
    freed = malloc.FreedMemory()
    tensors = [torch.ones(2**20) for _ in range(200)]  # 4 MiB each
    kept = tensors[1::20]
    del tensors
    before = process_memory("VmRSS")
    now += 59
    freed.release()
    meanwhile = process_memory("VmRSS")
    now += 2
    freed.release()
    after = process_memory("VmRSS")
    assert before is not None and meanwhile is not None and after is not None
    assert before - meanwhile < 2**26
    assert before - after > 2**29
    assert all(tensor.sum() == 2**20 for tensor in kept)
