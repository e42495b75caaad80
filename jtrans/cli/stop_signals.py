"""Ctrl-C, SIGTERM and SIGHUP as requests to stop, which long work follows once it has saved."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from jtrans.cli import console
from jtrans.processors import STOPS


class StopSignals:
    """Within the block, the first signal sets a flag; a second SIGINT or SIGTERM stops at once.

    Args:
        talks: whether to print that the first signal was received.
        is_rank: whether a launcher passes signals on. A batch system sends SIGTERM to the launcher
            and to its processes: these receive it twice, and must not stop at once.
    """

    def __init__(self, *, talks: bool = True, is_rank: bool = False) -> None:
        self._talks, self._is_rank = talks, is_rank
        self.number: int | None = None  # of the first signal that was received
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Handle the signals, except those that the caller ignores (nohup)."""
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def are_set(self) -> bool:
        """Return whether a signal was received."""
        return self.number is not None

    @property
    def exit_code(self) -> int | None:
        """130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP, None without a signal."""
        return None if self.number is None else 128 + self.number

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            if self._is_rank:
                return
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            if number == signal.SIGTERM:
                raise SystemExit(128 + number)
            return  # a shell and the system both send SIGHUP; systemd sends it after SIGTERM
        self.number = number
        if not self._talks:
            return
        # raised if the signal interrupts the printing of another line
        with contextlib.suppress(RuntimeError):
            console.talk("stopping once the work so far is saved; interrupt again to stop at once")


class Terminated(SystemExit):
    """An exit on SIGTERM or SIGHUP that removes temporary files on the way."""


class Leaving:
    """Exits on signals that nothing else handles, by `KeyboardInterrupt` or `Terminated`."""

    # the exit code, once a signal was received: C code may turn the exception into another
    code: int | None = None

    def __init__(self) -> None:
        self._show_other = sys.unraisablehook

    def take_signals(self) -> None:
        """Handle the signals that have their default handler; others are ignored (nohup)."""
        sys.unraisablehook = self.discarded
        for number in STOPS:
            if signal.getsignal(number) is signal.SIG_DFL:  # SIGINT: see `jtrans.__main__`
                signal.signal(number, self)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Exit, or have the signal sent again if an exception cannot be raised now."""
        if _torch_is_being_imported():
            _send_again(number)
            return
        self.code = 128 + number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(self.code)

    def discarded(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Handle what a callback or ``__del__`` raised, which Python would only print."""
        if isinstance(unraisable.exc_value, (KeyboardInterrupt, Terminated)) and self.code:
            _send_again(self.code - 128)
        else:
            self._show_other(unraisable)


def _send_again(number: int) -> None:
    """Send a signal to the main thread after 50 ms."""
    again = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()


def _torch_is_being_imported() -> bool:
    """Return whether torch is being imported: an exception in its C++ would abort the process."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
