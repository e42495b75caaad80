"""How long work tells its caller where it is, without knowing that a terminal exists."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what long work has to say; the command line draws it."""

    def say(self, label: str, text: str) -> None:
        """Show one finished line, for example ``say("Reading", "train 29,000")``."""
        ...

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Say that `done` of `total` units of `task` are finished; equal numbers end the bar.

        Args:
            task: what is being done, the name of the bar.
            done: finished so far.
            total: all there is to do; None where nobody knows.
            unit: "bytes" for sizes, which are shown with their rate; empty for things counted.
        """
        ...

    def warn(self, text: str) -> None:
        """Show a warning once."""
        ...


class Silent:
    """A `Progress` that says nothing."""

    def say(self, label: str, text: str) -> None:
        """Ignore the line."""

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Ignore the advance."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""
