"""What a capture leaves behind, with a stand-in for torch's graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.nn.gpu.capture import CudaCapture

CANNOT_END = "operation failed due to a previous error during capture"


class Stream:
    """A stream without work."""

    def wait_stream(self, other: Stream) -> None:
        """Wait for nothing."""


class Graph:
    """A graph that repeats nothing."""

    def pool(self) -> str:
        """Return the memory of all graphs."""
        return "pool"

    def replay(self) -> None:
        """Do nothing."""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace what needs a GPU, and note what happens to streams, workspaces and captures."""
    noted: list[Any] = []
    current = [Stream()]

    @contextlib.contextmanager
    def capture(graph: Graph, *, stream: Stream, **settings: Any) -> Iterator[None]:
        before, current[0] = current[0], stream
        noted.append(("begin", settings.get("pool")))
        yield
        noted.append("end")
        current[0] = before

    def set_stream(stream: Stream) -> None:
        current[0] = stream
        noted.append("stream")

    for name, value in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "graph": capture,
        "set_stream": set_stream,
        "current_stream": lambda: current[0],
        "stream": lambda stream: contextlib.nullcontext(),
        "device": lambda device: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    clear = "_cuda_clearCublasWorkspaces"
    monkeypatch.setattr(torch._C, clear, lambda: noted.append("clear"), raising=False)
    return noted


def work() -> Tensor:
    """Do some work."""
    return torch.ones(1)


def test_a_capture_has_workspaces_of_the_pool_that_all_graphs_share(events: list[Any]) -> None:
    capture = CudaCapture(torch.device("cpu"))
    replays = [capture(work), capture(work)]
    assert events == [
        *("clear", ("begin", None), "end", "clear"),
        *("clear", ("begin", "pool"), "end", "clear"),
    ]
    assert all(replay() == 1 for replay in replays)


def test_a_capture_that_fails_leaves_stream_and_generator_as_before(events: list[Any]) -> None:
    capture, before = CudaCapture(torch.device("cpu"), warm_ups=0), torch.cuda.current_stream()

    def fail() -> Tensor:
        raise RuntimeError(CANNOT_END)

    with pytest.raises(RuntimeError, match=CANNOT_END):
        capture(fail)
    # the second capture, of almost nothing, ends; with it that of the generator
    assert events == ["clear", ("begin", None), "clear", "stream", ("begin", None), "end", "stream"]
    assert torch.cuda.current_stream() is before
