"""Micro-batches padded to a few sizes, in buffers with fixed addresses.

Lengths are rounded up to a multiple, and the number of sentences to one of a few numbers between
consecutive powers of 2: an epoch has dozens to hundreds of sizes. The sentences that are added are
idle: they have no loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.nn.embedding import PADDING
from jtrans.nn.gpu.capture import Replay

# By whether the model is joint: the tokens that lengths are multiples of, and how many numbers of
# sentences there are from one power of 2 to the next. Padding adds 10 to 13 % to the tokens of the
# Transformer, which costs a GPU little, and 4 to 7 % to joint positions, where more would cost more
# than capturing half as many sizes again. (Counted for batches of Multi30k and IWSLT14.)
LENGTHS = {False: 4, True: 2}
STEPS = {False: 8, True: 16}


@dataclass(frozen=True)
class Size:
    """The padded size of a micro-batch."""

    sentences: int
    source: int
    target: int

    @classmethod
    def holding(
        cls,
        sentences: int,
        source: int,
        target: int,
        *,
        is_joint: bool = False,
        longest: int | None = None,
    ) -> Size:
        """Return the smallest size that holds a micro-batch, each side at most `longest` tokens."""
        step = max(1, (1 << (sentences - 1).bit_length()) // (2 * STEPS[is_joint]))
        lengths = (_rounded_up(length, LENGTHS[is_joint]) for length in (source, target))
        S, T = (length if longest is None else min(length, longest) for length in lengths)
        return cls(_rounded_up(sentences, step), S, T)


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step


class PaddedBatch:
    """The buffer for micro-batches of one size, and the graph that reads it."""

    def __init__(self, size: Size, device: torch.device) -> None:
        B, S, T = size.sentences, size.source, size.target
        self.size = size
        self.ids = torch.zeros(B, S + 2 * T, dtype=torch.int64, device=device)
        self.rows = torch.arange(B * T, device=device)
        self.replay: Replay | None = None  # once captured
        self.held: list[Tensor] = []  # read by the graph: kept alive if the model replaces them

    def load(self, batch: Batch) -> None:
        """Pad a batch of the CPU and copy it into the buffer, without waiting for a GPU."""
        B, S = batch.source.shape
        T, first = batch.target_in.shape[1], self.size.source
        second = first + self.size.target
        is_pinned = self.ids.device.type == "cuda"
        ids = torch.full(self.ids.shape, PADDING, dtype=torch.int64, pin_memory=is_pinned)
        ids[:B, :S] = batch.source
        ids[B:, 0] = batch.source[0, 0]  # attention needs something to attend to
        ids[:B, first : first + T] = batch.target_in
        ids[:B, second : second + T] = batch.target_out
        self.ids.copy_(ids, non_blocking=True)

    def batch(self) -> Batch:
        """Return what was loaded; padding has the target `PADDING`, and so no loss."""
        S, T = self.size.source, self.size.target
        source, target_in, target_out = (
            part.contiguous() for part in self.ids.split([S, T, T], dim=1)
        )
        no_indices = torch.zeros(0, dtype=torch.int64)
        masks = source != PADDING, target_out != PADDING
        return Batch(source, masks[0], target_in, target_out, masks[1], no_indices, self.rows)
