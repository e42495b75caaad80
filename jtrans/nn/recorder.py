"""A recorder of attention weights: while it is on, blocks that attend report to it.

    with record_attention() as recorder:
        model.decode(target, model.encode(source, source != PADDING))
    weights = recorder[model.layers[0].cross_attention]

While a recorder is on, every block computes its plain form.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar

import torch
from torch import Tensor

from jtrans.errors import InternalError


class AttentionRecorder:
    """The attention weights of the forward passes while it was on."""

    def __init__(self) -> None:
        # by block (or by the name that was recorded), the weights of each call in turn
        self.calls: dict[Hashable, list[Tensor]] = {}

    def __getitem__(self, block: Hashable) -> Tensor:
        """Return the weights of the last call of `block`."""
        if block not in self.calls:
            raise InternalError(f"no attention weights were recorded of {block}")
        return self.calls[block][-1]


_RECORDER: ContextVar[AttentionRecorder | None] = ContextVar("attention_recorder", default=None)
# what recorders keep in place of the weights of a block
Kept = Callable[[Hashable, Tensor], Tensor]
_KEPT: ContextVar[Kept | None] = ContextVar("kept_attention", default=None)


@contextlib.contextmanager
def record_attention() -> Iterator[AttentionRecorder]:
    """Record the weights of every block that attends within the context, in this thread."""
    recorder = AttentionRecorder()
    token = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


@contextlib.contextmanager
def keep_instead(kept: Kept) -> Iterator[None]:
    """Let recorders within the context, in this thread, keep `kept(block, weights)`.

    `kept` preserves the shape, so that a model's `explain` still returns all its maps; in place of
    weights that nobody reads it can return an expanded zero, which needs no memory.
    """
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def is_recording() -> bool:
    """Return whether a recorder is on; always False in compiled code."""
    return not torch.compiler.is_compiling() and _RECORDER.get() is not None


def record(block: Hashable, weights: Tensor) -> None:
    """Report attention weights, last axis attended over, to the recorder that is on, if any.

    Args:
        block: the module that attends, or any key to look up the weights.
        weights: before dropout.
    """
    recorder = None if torch.compiler.is_compiling() else _RECORDER.get()
    if recorder is not None:
        kept = _KEPT.get()
        weights = weights if kept is None else kept(block, weights)
        recorder.calls.setdefault(block, []).append(weights)
