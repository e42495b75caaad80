"""A long text goes through `jtrans translate` in memory that does not grow with it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from plugins.command_line import start_process
from plugins.random_runs import MakeRun

LINES = 100_000
MOST_GROWTH_BYTES = 40_000_000  # of the process after a fifth of the lines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]


def resident_bytes(process_id: int) -> int:
    """The memory of a process."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)


def test_a_hundred_thousand_lines_go_through_a_pipe(make_run: MakeRun) -> None:
    run = make_run()
    with start_process(
        *("translate", run, "--beam", "2", "--max-length", "3", "--n-best", "2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        writer = process.stdin

        def write() -> None:
            for number in range(LINES):
                writer.write(b"ein mann liest .\n" if number % 2 else b"hund\n")
            writer.close()

        threading.Thread(target=write, daemon=True).start()
        early = 0
        for number, line in enumerate(process.stdout):
            assert line.startswith(b"%d ||| " % (number // 2))
            if number == 2 * LINES // 5:
                early = resident_bytes(process.pid)
            last = number
            if number == 2 * LINES - 2:
                assert resident_bytes(process.pid) - early < MOST_GROWTH_BYTES
        assert last + 1 == 2 * LINES
        assert process.wait() == 0
