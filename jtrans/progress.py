"""The interface through which long-running work reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives progress reports; the command line shows them."""

    def say(self, label: str, text: str) -> None:
        """Show one finished line, for example ``say("Reading", "train 29,000")``."""
        ...

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Report that `done` of `total` units of `task` are finished.

        Args:
            task: the label of the progress bar.
            done: the units finished so far.
            total: the number of units, at which the bar is removed; None if it is unknown.
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
