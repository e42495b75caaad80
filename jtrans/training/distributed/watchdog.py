"""Watches the ranks of a group: none waits forever for another that is stuck, dead or gone.

A thread on every rank renews a sign of life in the store that the ranks share, and reads those of
the others. It works while the rank computes or waits.

    stuck    this rank has made no progress for `STUCK_SECONDS`, and is not waiting for others: it
             logs where it is, with its stack, and ends
    silent   another rank gives no sign of life for `SILENT_SECONDS` (its process is stopped, its
             machine gone): this rank says so and ends, and the launcher ends those of its machine
    failed   another rank has failed and said why: this rank ends
    orphan   the launcher of this rank is gone: this rank stops as after SIGTERM, saving its state
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import functools
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch._C._distributed_c10d import PrefixStore, TCPStore

from jtrans.errors import EXIT_FAILED
from jtrans.processors import is_alive, process_status
from jtrans.training.distributed.place import launcher_process, say_ended

PULSE_SECONDS = 2.0  # between two signs of life
SILENT_SECONDS = 30.0
STUCK_SECONDS = 600.0
LEAVING_SECONDS = 5.0  # for a rank to end by itself after another has failed
WAITING = "waiting for the other ranks"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Why a rank has failed, and whether it would fail again if restarted."""

    rank: int
    host: str
    message: str
    is_final: bool = False
    exit_code: int = EXIT_FAILED


class Watchdog:
    """The thread, and the messages that ranks leave for each other.

    Args:
        rank: of this process.
        count: of all ranks.
        name: of the group: the store may still hold messages from before a restart.
    """

    def __init__(self, rank: int, count: int, name: str) -> None:
        self.rank, self.count = rank, count
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        timeout = datetime.timedelta(seconds=SILENT_SECONDS)
        # a connection of its own: the group's may be busy
        store = TCPStore(address, port, is_master=False, timeout=timeout)
        self._store = PrefixStore(f"jtrans-{name}", store)
        self._lock = threading.Lock()
        self.host, self._parent = socket.gethostname(), launcher_process() or os.getppid()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._main = threading.get_ident()
        self._doing, self._since = "starting", time.monotonic()
        self._beats = 0
        # the last sign of life of each rank, and when it was first seen
        self._seen: dict[int, tuple[dict[str, Any], float]] = {}
        self.is_stopping = False
        self.is_leaving = False  # as another rank is lost, this one saves and ends by itself

    def start(self) -> None:
        """Start the thread."""
        if hasattr(signal, "SIGUSR1"):  # another rank sends it to one that is silent
            with contextlib.suppress(ValueError, RuntimeError, OSError):  # stderr is not a file
                faulthandler.register(signal.SIGUSR1)
        self._try(self._beat)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._is_ending.set()
        if self._thread.is_alive():
            self._thread.join(PULSE_SECONDS)

    def doing(self, text: str) -> None:
        """Note what this rank does from now on."""
        self._doing, self._since = text, time.monotonic()

    # Messages to the other ranks

    def ask_to_stop(self) -> None:
        """Ask all ranks to stop."""
        if not self.is_stopping:
            self.is_stopping = True
            self._try(lambda: self._store.set("stop", "1"))

    def tell(
        self, message: str, *, is_final: bool = False, exit_code: int = EXIT_FAILED
    ) -> Failure | None:
        """Report why this rank fails; return the failure of a rank that reported first, if any."""
        own = Failure(self.rank, self.host, message, is_final, exit_code)
        failure = json.dumps(asdict(own))
        first = self._try(lambda: self._store.compare_set("failure", "", failure).decode())
        return None if first in (None, failure) else Failure(**json.loads(first))

    def explain(self) -> str | None:
        """Return what happened to a rank that cannot be reached, None if that is not known."""
        end = time.monotonic() + LEAVING_SECONDS
        while time.monotonic() < end:
            if (failure := self._failure()) is not None:
                return failure.message
            for rank in range(self.count):
                sign = self._try(functools.partial(self._sign, rank))
                if sign and sign["host"] == self.host and not is_alive(sign["pid"]):
                    return f"{_name(rank, sign)} has died ({_where(sign)})"
            time.sleep(0.1)
        return None

    # The thread

    def _watch(self) -> None:
        woken = time.monotonic()
        while not self._is_ending.wait(PULSE_SECONDS):
            now = time.monotonic()
            if now - woken > 5 * PULSE_SECONDS:  # the process was suspended: restart all timers
                self._since = now
                self._seen = {rank: (sign, now) for rank, (sign, _) in self._seen.items()}
            woken = now
            self._judge_this(now)
            try:
                if not self._is_orphan():
                    with self._lock:
                        self._beat()
                    self._judge_others(now)
            except Exception as error:
                self._is_ending.wait(1.0)  # the store may have gone with the launcher
                if not (self._is_ending.is_set() or self._is_orphan()):
                    self._end(f"the connection to the first rank's machine is lost: {error}")

    def _is_orphan(self) -> bool:
        """Return whether the launcher is gone, after which the ranks save and end.

        They still reach each other, but the store may be gone.
        """
        if os.getppid() != self._parent and not self.is_stopping:
            self.is_stopping = True
            os.kill(os.getpid(), signal.SIGTERM)
        return os.getppid() != self._parent

    def _beat(self) -> None:
        self._beats += 1
        sign = {"n": self._beats, "host": self.host, "pid": os.getpid(), "doing": self._doing}
        self._store.set(f"sign-{self.rank}", json.dumps(sign))
        self.is_stopping = self.is_stopping or self._store.check(["stop"])

    def _sign(self, rank: int) -> dict[str, Any] | None:
        key = f"sign-{rank}"
        return json.loads(self._store.get(key)) if self._store.check([key]) else None

    def _judge_this(self, now: float) -> None:
        if self._doing == WAITING or now - self._since < STUCK_SECONDS:
            return
        frame = sys._current_frames().get(self._main)
        stack = "".join(traceback.format_stack(frame))
        seconds = now - self._since
        self._end(f"rank {self.rank} has been stuck for {seconds:.0f} s ({self._doing})\n{stack}")

    def _judge_others(self, now: float) -> None:
        if self.is_leaving:
            return
        for rank in range(self.count):
            with self._lock:
                sign = self._sign(rank) if rank != self.rank else None
            if sign is None:
                continue
            if rank not in self._seen or self._seen[rank][0]["n"] != sign["n"]:
                self._seen[rank] = sign, now
                continue
            silence = now - self._seen[rank][1]
            if silence > SILENT_SECONDS:
                if sign["host"] == self.host:
                    _end_silent(sign["pid"])
                fault = f"has given no sign of life for {silence:.0f} s ({_where(sign)})"
                self._end(f"{_name(rank, sign)} {fault}")
        failure = self._failure()
        if failure is None or self._is_ending.wait(LEAVING_SECONDS):
            return
        if not self.is_leaving:
            # this rank was not waiting for that one, and would not notice for a long time
            if failure.host != self.host:  # its own message is on another machine
                _log.error(
                    "rank %d on %s has failed: %s", failure.rank, failure.host, failure.message
                )
                logging.shutdown()
            os._exit(say_ended(failure.exit_code, is_final=failure.is_final))

    def _end(self, message: str) -> None:
        """End this process, which may be waiting for ever, after saying why."""
        self.tell(message)
        _log.error("%s", message)
        logging.shutdown()
        os._exit(1)

    def _failure(self) -> Failure | None:
        def read() -> str | None:
            return self._store.get("failure").decode() if self._store.check(["failure"]) else None

        text = self._try(read)
        return Failure(**json.loads(text)) if text else None

    def _try(self, ask: Callable[[], Any]) -> Any:
        """Return the result of a call of the store; None if the store is gone with its machine."""
        try:
            with self._lock:
                return ask()
        except RuntimeError:
            return None


def _name(rank: int, sign: dict[str, Any]) -> str:
    return f"rank {rank} (process {sign['pid']} on {sign['host']})"


def _where(sign: dict[str, Any]) -> str:
    return f"last seen {sign['doing']}"


def _end_silent(pid: int) -> None:
    """Kill a rank of the same launcher that no longer responds, after it has logged its stack.

    Only on Linux; on other systems the launcher does this later.
    """
    if process_status(pid)[1:2] != [str(os.getppid())]:
        return  # another process has its id
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(1.0)
        os.kill(pid, signal.SIGKILL)
