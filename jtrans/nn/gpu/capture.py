"""Capturing work on a GPU as a CUDA graph.

A graph launches all its operations at once, and repeats them on the same memory: the work reads and
writes tensors that stay where they are.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

WARM_UPS = 3  # before a capture, on a stream of its own, as torch's documentation demands

Replay = Callable[[], Tensor]  # does the work; the result is always written to the same tensor
Capture = Callable[[Replay], Replay]


class CudaCapture:
    """Capturing on a GPU; all graphs share one pool of memory, as they never run side by side.

    Args:
        device: the GPU.
        warm_ups: how often the work is done before a capture.
    """

    def __init__(self, device: torch.device, warm_ups: int = WARM_UPS) -> None:
        self._device, self._warm_ups = device, warm_ups
        self._graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()
        self._stream: torch.cuda.Stream | None = None  # torch's own is of the first device used

    def __call__(self, work: Replay) -> Replay:
        """Do the work a few times, with whatever its tensors hold, and capture it."""
        with torch.cuda.device(self._device):
            stream = self._stream = self._stream or torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            try:
                with torch.cuda.stream(stream):
                    for _ in range(self._warm_ups):
                        work()
            finally:
                torch.cuda.current_stream().wait_stream(stream)
            graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
            # a pool cannot be used again once all its graphs are gone
            pool = next((each.pool() for each in self._graphs), None)
            # other threads may use the GPU meanwhile, to copy batches and checkpoints
            context = torch.cuda.graph(
                graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            )
            try:
                with _workspaces_of_the_pool(), context:
                    result = work()
            except BaseException:
                self._settle(before)  # torch does not, if the capture cannot be ended
                raise
            self._graphs.add(graph)

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay

    def _settle(self, stream: torch.cuda.Stream) -> None:
        """Undo what a failed capture may leave: its stream, and a generator that refuses to draw.

        According to its source, torch before 2.13 regards the generator as captured until a capture
        ends. The failed one may not have ended, so another one, of almost nothing, does.
        """
        torch.cuda.set_stream(stream)
        try:
            context = torch.cuda.graph(
                torch.cuda.CUDAGraph(), stream=self._stream, capture_error_mode="thread_local"
            )
            with contextlib.suppress(RuntimeError), context:
                torch.zeros(1, device=self._device)
        finally:
            torch.cuda.set_stream(stream)


@contextlib.contextmanager
def _workspaces_of_the_pool() -> Iterator[None]:
    """Allocate the cuBLAS workspaces of a capture in the memory that all graphs share.

    cuBLAS keeps a workspace for each stream, whose address becomes part of a graph. torch 2.13
    frees the workspaces of a stream with any of its graphs, while others still write to them
    (pytorch/pytorch#193402).
    """
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
