"""Large arrays in temporary files behave like any others, and leave nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from jtrans.data import scratch
from jtrans.data.scratch import scratch_zeros
from jtrans.errors import JtransError


@pytest.mark.parametrize("in_memory", [0, 2**20], ids=["file", "memory"])
def test_an_array_can_be_filled_and_leaves_no_file(
    in_memory: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", in_memory)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = scratch_zeros(5000, np.int32)
    assert array.shape == (5000,) and not array.any()
    array[7:9] = [3, 4]
    assert array[[6, 7, 8, 9]].tolist() == [0, 3, 4, 0]
    assert list(tmp_path.iterdir()) == []


def test_an_empty_array_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    assert scratch_zeros(0, np.int64).size == 0


def test_a_disk_without_room_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JtransError):
        scratch_zeros(2**50, np.int64)
