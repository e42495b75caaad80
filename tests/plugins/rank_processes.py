"""Run a function in several processes that train together."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any


def start_ranks(
    count: int, function: Callable[[int], Any], **environment: str
) -> tuple[list[BaseProcess], Any]:
    """Fork `count` ranks that call `function` with their rank; return them and their results.

    Forked processes need not import torch again, which takes longer than most tests.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def run(rank: int) -> None:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}),
            **environment,
        }
        try:
            results.put((rank, function(rank)))
        except Exception as error:
            text = traceback.format_exc() if os.environ.get("JTRANS_TEST_TRACE") else repr(error)
            results.put((rank, text))

    ranks: list[BaseProcess] = [context.Process(target=run, args=(rank,)) for rank in range(count)]
    for process in ranks:
        process.start()
    return ranks, results


def run_ranks(count: int, function: Callable[[int], Any], **environment: str) -> list[Any]:
    """Return what `function` returns on every rank; an exception as text.

    Of a rank that has ended without either, the text is its exit code.
    """
    ranks, results = start_ranks(count, function, **environment)
    answers: dict[int, Any] = {}
    while any(process.is_alive() for process in ranks) or not results.empty():
        if results.empty():
            time.sleep(0.01)
        else:
            rank, value = results.get()
            answers[rank] = value
    for process in ranks:
        process.join()
    return [answers.get(rank, f"exit code {ranks[rank].exitcode}") for rank in range(count)]
