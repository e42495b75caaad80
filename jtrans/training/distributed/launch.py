"""Start the processes that train together on this machine, and start them again if one dies.

torch's elastic agent does both. Each process runs the same command as this one, reads its rank from
its environment and writes to the streams of this process. The agent takes every exit code but 0 for
a crash, so a process that must not be started again (done, stopped, or with an error that would
recur) exits with 0 and writes its real exit code to a file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from jtrans.errors import WorkError
from jtrans.processors import available_cpus, own_command
from jtrans.training.distributed.place import LAUNCHER
from jtrans.training.distributed.ranks import CONTINUES

POLL_SECONDS = 0.2


def launch(
    arguments: Sequence[str],
    processes: int,
    *,
    max_restarts: int,
    report: Callable[[str], None],
    stop_signal: Callable[[], int | None],
) -> int:
    """Run the command in several processes, and return its exit code.

    Args:
        arguments: of the command line.
        processes: how many.
        max_restarts: how often all are started again after one has died.
        report: receives the description of each process that died.
        stop_signal: returns the signal that asked to stop, which is passed on; None if none did.

    Raises:
        WorkError: a process died more than `max_restarts` times, or the processes cannot connect.
    """
    with tempfile.TemporaryDirectory(prefix="jtrans-") as name, _environment(name, processes):
        folder = Path(name)
        agent = _Agent(arguments, processes, max_restarts, folder)
        with _reports(report):
            agent.start()
            try:
                _wait(agent, folder, stop_signal)
            except BaseException:
                _send(signal.SIGKILL, _process_ids(folder))
                raise
        if agent.fault is not None:
            raise agent.fault
        codes = [int(path.read_text()) for path in sorted(folder.glob("*.code"))]
        return max(codes, default=0)


def _wait(agent: threading.Thread, folder: Path, stop_signal: Callable[[], int | None]) -> None:
    """Wait for the agent to end; each process gets the signal to stop once."""
    signalled: set[int] = set()
    while agent.is_alive():
        agent.join(POLL_SECONDS)
        if (number := stop_signal()) is not None:
            _send(number, _process_ids(folder) - signalled)
            signalled |= _process_ids(folder)


class _Agent(threading.Thread):
    """torch's agent in a thread of its own, so that it does not handle this process's signals."""

    def __init__(
        self, arguments: Sequence[str], processes: int, max_restarts: int, folder: Path
    ) -> None:
        super().__init__(daemon=True)
        self.fault: Exception | None = None
        self._arguments = arguments
        self._config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=folder.name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # a free port
            local_addr="localhost",
            max_restarts=max_restarts,
            monitor_interval=POLL_SECONDS,
            logs_specs=DefaultLogsSpecs(log_dir=str(folder / "log")),
        )

    def run(self) -> None:
        try:
            program, *start = own_command()
            elastic_launch(self._config, program)(*start, *self._arguments)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            name = f"rank {rank} (process {failure.pid})"
            self.fault = WorkError(
                f"{name} {_describe_exit(failure.exitcode)}",
                hint=CONTINUES,
                kind="distributed.lost",
            )
        except RendezvousError:
            self.fault = WorkError(
                "the processes cannot reach each other at localhost",
                hint="localhost must be this machine, with its loopback interface up "
                "(ip link set lo up)",
                kind="distributed.network",
            )
        except Exception as error:
            self.fault = error


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
        return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"was killed by signal {-code}"


@contextlib.contextmanager
def _environment(folder: str, processes: int) -> Iterator[None]:
    new = {LAUNCHER: f"{os.getpid()}:{folder}"}
    # each process computes with its share of the processors
    new |= {"OMP_NUM_THREADS": str(max(1, available_cpus() // processes))}
    new |= {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # without stack traces of closed connections
    if sys.platform == "linux":
        new |= {"GLOO_SOCKET_IFNAME": "lo"}  # a host's own name need not have an address
    new = {name: value for name, value in new.items() if name == LAUNCHER or name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _reports(report: Callable[[str], None]) -> Iterator[None]:
    """Report the processes that die as the agent logs them, and nothing else of its log."""

    class Failures(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            text = record.getMessage()
            if record.levelno >= logging.ERROR and text.startswith("failed"):
                report(f"a process {text.partition(' of binary')[0]}")
            return False

    failures = Failures()
    loggers = [
        logging.getLogger(name)
        for name in list(logging.root.manager.loggerDict)
        if name.startswith("torch.distributed.elastic")
    ]
    for log in loggers:
        log.addFilter(failures)
    try:
        yield
    finally:
        for log in loggers:
            log.removeFilter(failures)


def _process_ids(folder: Path) -> set[int]:
    return {int(path.read_text()) for path in folder.glob("*.pid")}


def _send(number: int, process_ids: set[int]) -> None:
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, number)
