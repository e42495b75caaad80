"""Trainings that crash, and the files they leave."""

from __future__ import annotations

from pathlib import Path

from jtrans.runs import Run
from jtrans.training.events import Advance, TrainingEvents


class CrashError(Exception):
    """Stands for kill -9."""


class CrashingEvents(TrainingEvents):
    """Crashes at the end of an update."""

    def __init__(self, update: int) -> None:
        self.at = update

    def update(self, advance: Advance) -> None:
        if advance.update == self.at:
            raise CrashError


def last_files(run: Path) -> dict[str, bytes]:
    """Return the files of a run's last checkpoint with numbers: weights and optimiser."""
    folder = Run(run).checkpoint("last").folder
    return {
        name: (folder / name).read_bytes() for name in ("model.safetensors", "state.safetensors")
    }
