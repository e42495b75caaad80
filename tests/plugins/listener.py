"""A `Progress` that remembers what long work says."""

from __future__ import annotations

from jtrans.progress import Silent


class Listener(Silent):
    """Remembers everything.

    Attributes:
        said: every line, label and text.
        warnings: all warnings.
        advances: each task with what was done and what there is to do.
    """

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.advances: list[tuple[str, int, int | None]] = []

    @property
    def lines(self) -> dict[str, str]:
        """Return the last text of each label."""
        return dict(self.said)

    def say(self, label: str, text: str) -> None:
        self.said.append((label, text))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        self.advances.append((task, done, total))
