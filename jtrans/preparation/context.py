"""The state shared by the steps of a preparation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jtrans.preparation.request import Request
from jtrans.progress import Progress


@dataclass(frozen=True)
class Preparation:
    """The state shared by the steps of a preparation."""

    request: Request  # the text and the options
    folder: Path  # the work folder
    workers: int  # number of processes
    progress: Progress  # receives the reports of all steps
    # called with the name of each step when it ends
    step: Callable[[str], None] = lambda _name: None
