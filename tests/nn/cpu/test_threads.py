"""How many threads compute products of few rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from jtrans import processors
from jtrans.nn.cpu.threads import FEW_ROWS, threads_for


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads on two processors."""
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "others", "threads"),
    [(5, 0, 2), (5, 1, 1), (FEW_ROWS, 1, 1), (FEW_ROWS + 1, 1, 2)],
)
def test_few_rows_leave_busy_processors_alone(
    rows: int, others: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "others_running", lambda: others)
    with threads_for(rows, torch.device("cpu")):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2
