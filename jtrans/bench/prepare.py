"""The time of each step of a preparation, and its peak memory: `jtrans bench prepare`."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrans.corpora.parallel import Corpus
from jtrans.errors import ConfigError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import run_steps
from jtrans.preparation.request import Preparation, make_request
from jtrans.progress import Progress
from jtrans.workers import default_workers


@dataclass
class StepTime:
    """One step: wall-clock seconds, and CPU seconds over all processors."""

    name: str
    seconds: float
    cpu_seconds: float


@dataclass
class PrepareMeasurement:
    """One measured preparation."""

    pairs: int  # sentence pairs of all splits
    workers: int
    # an upper bound: this process plus its largest worker times the number of workers, each with
    # the memory that they share
    peak_mib: int = 0
    steps: list[StepTime] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The seconds of all steps together."""
        return sum(step.seconds for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the measurement with each step's share of the time."""
        return {
            "pairs": self.pairs,
            "workers": self.workers,
            "seconds": round(self.seconds, 2),
            "pairs_per_second": round(self.pairs / self.seconds),
            "peak_mib": self.peak_mib,
            "steps": [
                {
                    "step": step.name,
                    "seconds": round(step.seconds, 2),
                    "cpu_seconds": round(step.cpu_seconds, 2),
                    "share": round(step.seconds / self.seconds, 3),
                }
                for step in self.steps
            ],
        }


def measure_prepare(
    corpus: Corpus, options: PrepareOptions, *, workers: int | None, progress: Progress
) -> PrepareMeasurement:
    """Prepare a corpus in a temporary folder and measure the steps.

    Raises:
        ConfigError: the operating system does not report the memory of a process.
    """
    try:
        import resource
    except ImportError as error:  # Windows
        raise ConfigError("memory cannot be measured on this system") from error
    workers = workers or default_workers(progress.warn)
    measured = PrepareMeasurement(sum(len(text) for text in corpus.splits.values()), workers)
    last = [time.monotonic(), _cpu_seconds()]

    def on_step(name: str) -> None:
        now = [time.monotonic(), _cpu_seconds()]
        measured.steps.append(StepTime(name, now[0] - last[0], now[1] - last[1]))
        last[:] = now

    request = make_request(corpus, options, progress)
    on_step("reading")
    with tempfile.TemporaryDirectory(prefix="jtrans-bench-") as folder:
        preparation = Preparation(request, Path(folder), workers, progress, on_step)
        run_steps(preparation, Path(folder) / "made", {})
    parent, largest = (
        resource.getrusage(processes).ru_maxrss
        for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    unit = 1024 if os.uname().sysname == "Linux" else 1024 * 1024  # KiB there, bytes on macOS
    measured.peak_mib = round((parent + (workers * largest if workers > 1 else 0)) / unit)
    return measured


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
