"""Ctrl-C, SIGTERM and SIGHUP as requests to stop, which long work honours when it can save."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from jtrans.cli import console

# SIGHUP: the terminal was closed, or the connection to it was lost
STOPS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


class StopSignals:
    """Within the block, the first signal sets a flag; a second SIGINT or SIGTERM stops at once.

    Args:
        talks: whether to say that the first one was received.
        is_rank: whether a launcher passes signals on. A batch system sends SIGTERM to the launcher
            and to its processes: these get it twice, and a second one must not stop them at once.
    """

    def __init__(self, *, talks: bool = True, is_rank: bool = False) -> None:
        self._talks, self._is_rank = talks, is_rank
        self.number: int | None = None  # of the first signal that was received
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals, but not those that the caller has ignored (nohup)."""
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
        # a signal that interrupts the writing of a line cannot write another
        with contextlib.suppress(RuntimeError):
            console.talk("stopping once the work so far is saved; interrupt again to stop at once")


class Terminated(SystemExit):
    """Leaving by SIGTERM or SIGHUP, whose temporary files are removed on the way."""


class Leaving:
    """Leaves by a signal that nothing else handles: `KeyboardInterrupt` or `Terminated`."""

    # to exit with, once a signal was received: C code may turn the exception into another
    code: int | None = None

    def __init__(self) -> None:
        self._show_other = sys.unraisablehook

    def take_signals(self) -> None:
        """Handle the signals that have the system's handlers: a caller may ignore them (nohup)."""
        sys.unraisablehook = self.discarded
        for number in STOPS:
            if signal.getsignal(number) is signal.SIG_DFL:  # SIGINT: see `jtrans.__main__`
                signal.signal(number, self)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Leave, or let the signal come again if an exception could not pass."""
        if _torch_is_being_imported():
            _send_again(number)
            return
        self.code = 128 + number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(self.code)

    def discarded(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Receive what a callback or ``__del__`` raised, which Python would only print."""
        if isinstance(unraisable.exc_value, (KeyboardInterrupt, Terminated)) and self.code:
            _send_again(self.code - 128)
        else:
            self._show_other(unraisable)


def _send_again(number: int) -> None:
    """Send a signal to the main thread once what it is doing is likely to be done."""
    again = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()


def _torch_is_being_imported() -> bool:
    """Return whether an exception may reach C++ that aborts the process."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
