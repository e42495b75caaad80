"""Batches of sentences searched at the same time by threads of one process.

A step of a search consists of many small operations, of which threads can share only the products.
So on a CPU every thread searches a batch of its own. A Transformer of 6 + 6 layers, beam 5, batches
of 16, two threads of a Xeon: 136 sentences/s, and 125 with both threads on one batch after the
other; where threads sleep between products (`jtrans.processors`) 122 and 70. Dividing a single
batch among the threads does not pay: for two sentences, both threads on the whole batch took half
the time that each took for one sentence, for 16 sentences four fifths of that for its half.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import TypeVar

import torch

from jtrans.nn.cpu.matmul_backend import hold_backend

Item = TypeVar("Item")
Batch = list[int]  # sentences by number

# Python runs in one thread at a time: batches of single sentences gain nothing from a second one.
MOST_LANES = 4

_is_wanted: contextvars.ContextVar[Callable[[], bool]] = contextvars.ContextVar(
    "is_wanted", default=lambda: True
)


class Unwanted(BaseException):
    """Raised in a search whose results are no longer wanted."""


def lane_count(device: torch.device) -> int:
    """Return how many batches to search at the same time; a GPU searches one after the other."""
    return min(torch.get_num_threads(), MOST_LANES) if device.type == "cpu" else 1


def in_lanes(
    batches: Sequence[Batch], compute: Callable[[Iterator[Batch]], Iterator[Item]], lanes: int
) -> Iterator[Item]:
    """Yield what `compute` yields for the batches, in the order in which they are finished.

    Args:
        batches: each is computed by one lane.
        compute: takes batches one by one and yields their results. A failure ends all lanes.
        lanes: how many threads compute; torch's threads are divided among them. A single lane is
            the calling thread.
    """
    waiting = iter(list(batches))  # a list's iterator may be shared by threads
    lanes = min(lanes, len(batches))
    if lanes <= 1:
        yield from compute(waiting)
        return
    threads = torch.get_num_threads()
    done: SimpleQueue[Item | _Ended] = SimpleQueue()
    leaving = threading.Event()
    is_wanted = _is_wanted.get()  # the caller's
    with_inference = torch.is_inference_mode_enabled()  # which other threads do not inherit

    def lane() -> None:
        _is_wanted.set(lambda: not leaving.is_set() and is_wanted())
        torch.set_num_threads(max(1, threads // lanes))
        error: BaseException | None = None
        try:
            with torch.inference_mode(with_inference):
                for item in compute(waiting):
                    done.put(item)
        except BaseException as raised:  # raised again in the calling thread
            error = raised
        done.put(_Ended(error))

    running = [
        threading.Thread(target=contextvars.copy_context().run, args=(lane,)) for _ in range(lanes)
    ]
    with hold_backend():
        try:
            for thread in running:
                thread.start()
            yield from _results(done, lanes)
        finally:
            leaving.set()
            for thread in running:
                thread.join()
            torch.set_num_threads(threads)  # also the default of threads started later


class _Ended:
    """The end of a lane."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _results(done: SimpleQueue[Item | _Ended], lanes: int) -> Iterator[Item]:
    while lanes:
        item = done.get()
        if not isinstance(item, _Ended):
            yield item
            continue
        lanes -= 1
        if item.error is not None:
            raise item.error


@contextlib.contextmanager
def only_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """End searches within the context by `Unwanted` at the first step when `is_wanted` is False."""
    before = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(before)


def leave_if_unwanted() -> None:
    """Raise `Unwanted` if the results of the calling search are no longer wanted."""
    if not _is_wanted.get()():
        raise Unwanted
