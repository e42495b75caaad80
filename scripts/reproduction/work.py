"""The rows that are missing, made one after the other until all are there or time is up."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jtrans.cli import console
from jtrans.cli.main import show_error
from jtrans.cli.stop_signals import StopSignals
from jtrans.cli.train.table import TrainTable
from jtrans.errors import CheckpointError, WorkError, usage_error
from scripts.reproduction.catalogue import Experiment, Row
from scripts.reproduction.data import open_data
from scripts.reproduction.results import RowResult
from scripts.reproduction.row import Job, run_row


def open_job(
    chosen: argparse.Namespace, task: str, setting: str, overrides: Sequence[str] = ()
) -> Job:
    """Return the job that the options describe; prepare its corpus where that is missing.

    Raises:
        JtransError: an unknown device, or a corpus that cannot be opened or prepared.
    """
    from jtrans.nn.device import resolve_device

    resolve_device(chosen.device)  # refuse an unknown one before the corpus is prepared
    if chosen.data is None:
        raise usage_error("no prepared corpus", f"--data data/prepared/{task}", where="--data")
    progress = console.TerminalProgress()
    corpus = open_data(task, chosen.data, originals=chosen.originals, progress=progress)
    overrides = (*overrides, *chosen.set)
    return Job(task, corpus, chosen.out, setting, overrides, chosen.average, chosen.device)


def again(given: Sequence[str]) -> str:
    """Return the command to paste, which works only in the root of the repository."""
    script = Path(__file__).parents[1] / "reproduce.py"
    place = ["-m", "scripts.reproduce"] if script.parents[1] == Path.cwd() else [str(script)]
    return shlex.join(["python", *place, *given])


def train_rows(
    job: Job,
    experiment: Experiment,
    rows: Sequence[Row],
    seeds: Sequence[int],
    budget: float | None,
) -> tuple[list[str], int]:
    """Make the rows that have no result; return the failed ones, and the exit code of a signal."""
    deadline = None if budget is None else time.monotonic() + 60.0 * budget
    failed: list[str] = []
    for seed in seeds:
        for row in rows:
            if job.finished(row, seed, experiment.splits) is not None:
                continue
            if deadline is not None and time.monotonic() > deadline:
                console.talk("the budget is used up")
                return failed, 0
            console.talk(f"\n{row.name}, seed {seed}")
            try:
                with StopSignals() as signals:
                    result = _make(job, experiment, row, seed, signals.are_set, deadline)
            except (WorkError, CheckpointError) as error:  # diverged, no memory, few validations
                show_error(error, as_json=False)
                failed.append(f"{row.name}-{seed}")
                continue
            if signals.exit_code is not None:
                return failed, signals.exit_code
            if result is None:
                console.talk("the budget is used up")
                return failed, 0
    return failed, 0


def _make(
    job: Job,
    experiment: Experiment,
    row: Row,
    seed: int,
    is_signalled: Callable[[], bool],
    deadline: float | None,
) -> RowResult | None:
    def should_stop() -> bool:
        return is_signalled() or (deadline is not None and time.monotonic() > deadline)

    with contextlib.closing(TrainTable()) as events:
        return run_row(
            job,
            row,
            seed,
            list(experiment.splits),
            events=events,
            should_stop=should_stop,
            progress=console.TerminalProgress(),
        )
