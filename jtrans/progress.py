"""How long work reports its progress, without knowing that a terminal exists."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what long work reports; the command line shows it."""

    def say(self, label: str, text: str) -> None:
        """Show one finished line, for example ``say("Reading", "train 29,000")``."""
        ...

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Report that `done` of `total` units of `task` are finished; equal numbers end the bar.

        Args:
            task: the name of the bar.
            done: the units finished so far.
            total: all units; None where the number is not known.
            unit: "bytes" for sizes, which are shown with their rate; empty for counts.
        """
        ...

    def warn(self, text: str) -> None:
        """Show a warning once."""
        ...


class Silent:
    """A `Progress` that shows nothing."""

    def say(self, label: str, text: str) -> None:
        """Ignore the line."""

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Ignore the advance."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""
