"""Ctrl-C and SIGTERM as requests to stop, which long work honours when it can save its state."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

from jtrans.cli import console


class StopSignals:
    """Within the block, the first SIGINT or SIGTERM sets a flag; the second stops at once."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def are_set(self) -> bool:
        """Return whether a signal was received."""
        return self._number is not None

    @property
    def exit_code(self) -> int | None:
        """130 after SIGINT, 143 after SIGTERM, None without a signal."""
        return None if self._number is None else 128 + self._number

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + number)
        self._number = number
        console.talk("stopping after this update; interrupt again to stop at once")
