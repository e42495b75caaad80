"""How long work tells its caller where it is, without knowing that a terminal exists."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what long work has to say; the command line draws it."""

    def say(self, label: str, text: str) -> None:
        """Show one finished line, for example ``say("Reading", "train 29,000")``."""
        ...

    def advance(self, task: str, done: int, total: int | None = None) -> None:
        """Say that `done` of `total` units of `task` are finished; equal numbers end the bar."""
        ...

    def warn(self, text: str) -> None:
        """Show a warning once."""
        ...


class Silent:
    """A `Progress` that says nothing."""

    def say(self, label: str, text: str) -> None:
        """Ignore the line."""

    def advance(self, task: str, done: int, total: int | None = None) -> None:
        """Ignore the advance."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""
