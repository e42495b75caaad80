"""How the processes of a group find each other in the store that their launcher keeps.

The store outlives a restart of the processes, and still holds what the earlier ones wrote. So the
ranks first agree on a name that was never used before, and write everything below it.
"""

from __future__ import annotations

import datetime
import functools
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from jtrans.errors import ConfigError, first_line
from jtrans.training.distributed.place import Place
from jtrans.training.distributed.ranks import LostRankError
from jtrans.training.distributed.watchdog import STUCK_SECONDS
from jtrans.training.stopping import StopRequestError

POLL_SECONDS = 0.05
LAST_SECONDS = 5.0  # for others to join, after a request to stop
TIMEOUT = datetime.timedelta(seconds=2 * STUCK_SECONDS)


def meet(place: Place, backend: str, should_stop: Callable[[], bool]) -> str:
    """Form torch's default group, and return a name that belongs to it alone.

    Args:
        place: of this process.
        backend: of the group.
        should_stop: called while waiting for others.

    Raises:
        ConfigError: the port is in use.
        LostRankError: another rank did not join, or left.
        StopRequestError: `should_stop` was true, and not all joined within `LAST_SECONDS`.
    """
    port = os.environ.get("MASTER_PORT")
    try:
        patience = _Patience(should_stop)
        name = _agree_on_name(_connected(patience), place, patience)
        dist.init_process_group(
            backend,
            timeout=TIMEOUT,
            store=PrefixStore(name, _store()),
            rank=place.rank,
            world_size=place.count,
        )
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{port}"
        if "EADDRINUSE" in str(error):
            raise ConfigError(
                f"the processes cannot connect to each other: port {port} is in use",
                where=where,
                hint="choose another --master-port",
                kind="distributed.port",
            ) from error
        raise LostRankError(
            f"the processes cannot connect to each other: {first_line(error)}",
            where=where,
            hint="check that all of them run, and that all machines can reach that address",
        ) from error
    return name


@functools.cache
def _store() -> Store:
    store: Store = next(iter(rendezvous("env://", timeout=TIMEOUT)))[0]
    return store


class _Patience:
    """The time that this process waits for others: little once it has been asked to stop.

    It is not 0, as others that are about to join would wait for this process in vain.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self._end = time.monotonic() + TIMEOUT.total_seconds()
        self._is_stopping = False

    def check(self, missing: int) -> None:
        """Raise an error if the time has run out; `missing` is a rank that has not joined."""
        if not self._is_stopping and self._should_stop():
            self._is_stopping, self._end = True, time.monotonic() + LAST_SECONDS
        if time.monotonic() < self._end:
            return
        if self._is_stopping:
            raise StopRequestError
        raise RuntimeError(f"rank {missing} has not joined")


def _connected(patience: _Patience) -> Store:
    """Return the store, from a thread: torch handles no signals while it waits for the store."""
    store: Future[Store] = Future()

    def connect() -> None:
        try:
            store.set_result(_store())
        except Exception as error:
            store.set_exception(error)

    threading.Thread(target=connect, daemon=True).start()
    while not store.done():
        patience.check(0)
        wait([store], POLL_SECONDS)
    return store.result()


def _agree_on_name(store: Store, place: Place, patience: _Patience) -> str:
    """Return a name that the first rank gives to those that have joined now.

    Each of the others announces itself with a token of its own, by which it distinguishes its
    answer from one to an earlier process of its rank.
    """
    token = secrets.token_hex(8)
    if place.rank > 0:
        return _ask_for_name(store, place.rank, token, patience)
    waiting = set(range(1, place.count))
    while waiting:
        for rank in sorted(waiting):
            store.set(f"answer-{rank}", f"{_read(store, f'hello-{rank}')}:{token}")
            if _read(store, f"ready-{rank}") == token:
                waiting.remove(rank)
        patience.check(min(waiting, default=0))
        time.sleep(POLL_SECONDS)
    return token


def _ask_for_name(store: Store, rank: int, token: str, patience: _Patience) -> str:
    store.set(f"hello-{rank}", token)
    while True:
        answered, _, name = _read(store, f"answer-{rank}").partition(":")
        if answered == token:
            store.set(f"ready-{rank}", name)
            return name
        patience.check(0)
        time.sleep(POLL_SECONDS)


def _read(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""
