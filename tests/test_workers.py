"""Worker processes: results in order, and a number for each worker."""

from __future__ import annotations

import os
import time

from jtrans.workers import run_jobs, worker_number


def who(job: int) -> tuple[int, int, int]:
    """Return the job, the worker's number and its process."""
    time.sleep(0.02)
    return job, worker_number(), os.getpid()


def test_workers_that_inherit_nothing_have_numbers_of_their_own() -> None:
    with run_jobs(who, range(12), workers=2, begins_anew=True) as results:
        done = list(results)
    assert [job for job, *_ in done] == list(range(12))
    workers = {(number, process) for _, number, process in done}
    assert {number for number, _ in workers} <= {0, 1}
    assert len(workers) == len({number for number, _ in workers}) and os.getpid() not in {
        process for _, process in workers
    }
