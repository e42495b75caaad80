"""How the processes of a group find each other in the store that their launcher keeps.

The store outlives a restart of the processes, and then holds what those before them wrote. So the
ranks first agree on a name that none of them has used before, and write everything below it.
"""

from __future__ import annotations

import datetime
import functools
import os
import secrets
import time

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from jtrans.errors import ConfigError
from jtrans.training.distributed.place import Place
from jtrans.training.distributed.ranks import LostRankError
from jtrans.training.distributed.watchdog import STUCK_SECONDS

POLL_SECONDS = 0.05
TIMEOUT = datetime.timedelta(seconds=2 * STUCK_SECONDS)


def meet(place: Place, backend: str) -> str:
    """Form torch's default group, and return a name that belongs to it alone.

    Raises:
        ConfigError: the port is in use.
        LostRankError: another rank does not come, or left.
    """
    port = os.environ.get("MASTER_PORT")
    try:
        name = _agree_on_name(_store(), place)
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
                f"the processes cannot meet: port {port} is in use",
                where=where,
                hint="choose another --master-port",
                kind="distributed.port",
            ) from error
        raise LostRankError(
            f"the processes cannot meet: {str(error).splitlines()[0]}",
            where=where,
            hint="check that all of them run, and that all machines reach that address",
        ) from error
    return name


@functools.cache
def _store() -> Store:
    store: Store = next(iter(rendezvous("env://", timeout=TIMEOUT)))[0]
    return store


def _agree_on_name(store: Store, place: Place) -> str:
    """Return a name that the first rank gives to those that are here now.

    Each of the others says hello with a token of its own, which tells the answer to it from an
    answer to an earlier process of its rank.
    """
    token = secrets.token_hex(8)
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    if place.rank > 0:
        return _ask_for_name(store, place.rank, token, deadline)
    waiting = set(range(1, place.count))
    while waiting:
        for rank in sorted(waiting):
            store.set(f"answer-{rank}", f"{_read(store, f'hello-{rank}')}:{token}")
            if _read(store, f"ready-{rank}") == token:
                waiting.remove(rank)
        _pause(deadline, min(waiting, default=0))
    return token


def _ask_for_name(store: Store, rank: int, word: str, deadline: float) -> str:
    store.set(f"hello-{rank}", word)
    while True:
        answered, _, name = _read(store, f"answer-{rank}").partition(":")
        if answered == word:
            store.set(f"ready-{rank}", name)
            return name
        _pause(deadline, 0)


def _pause(deadline: float, missing: int) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError(f"rank {missing} has not come")
    time.sleep(POLL_SECONDS)


def _read(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""
