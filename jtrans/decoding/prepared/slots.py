"""The keys and values of joint models' hypotheses, in slots that are written in place and reused.

All hypotheses of a sentence share its slots, and a mask says which slots make up each prefix (see
`jtrans.nn.beam_cache`). Every sentence has slots of its own, so that none moves when another
leaves. A new column takes a slot that no hypothesis needs any more: of the slots written in a
search with beam 5, less than half are alive, so the slots are less than half as many, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.nn.memory import require_memory

FIRST_CAPACITY = 32


class Slots:
    """The slots of one sentence in all layers.

    Args:
        layers: their number.
        length: S.
        heads: H.
        width: E.
        dtype: of keys and values.

    Attributes:
        new: the slots of the columns of this step, [beam].
        used: no slot from here on was ever written.
    """

    def __init__(
        self, layers: int, length: int, heads: int, width: int, dtype: torch.dtype
    ) -> None:
        self.held = torch.empty(layers, 2, length, heads, 0, width // heads, dtype=dtype)
        self.new = torch.empty(0, dtype=torch.int64)
        self.used = 0

    @property
    def capacity(self) -> int:
        """The number of slots there is room for."""
        return self.held.shape[4]

    @property
    def slot_bytes(self) -> int:
        """The memory of one slot."""
        *sizes, _, D = self.held.shape
        return self.held.element_size() * D * torch.Size(sizes).numel()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        *sizes, _, D = self.held.shape
        larger = self.held.new_empty(*sizes, capacity, D)
        larger[..., : self.capacity, :] = self.held
        self.held = larger

    def write(self, layer: int, columns: Tensor) -> None:
        """Write the keys and values of this step's columns, [beam, S, 2, H, D]."""
        self.held[layer].index_copy_(3, self.new, columns.permute(2, 1, 3, 0, 4))

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of all used slots, two views [S H, used, D]."""
        k, v = self.held[layer, ..., : self.used, :].flatten(1, 2)
        return k, v


def take_slots(mask: Tensor, caches: Sequence[Slots]) -> Tensor:
    """Give each hypothesis a new slot of its own.

    Args:
        mask: True where a slot belongs to a hypothesis's prefix, [A, beam, slots].
        caches: those of the A sentences; they grow where necessary.

    Returns:
        The mask with the new slots, and more columns if there were too few.
    """
    beam = mask.shape[1]
    is_live = mask.any(1)  # [A, slots]
    missing = beam - (is_live.shape[1] - int(is_live.sum(1).max()))
    if missing > 0:
        mask, is_live = pad(mask, (0, missing)), pad(is_live, (0, missing))
    new = is_live.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]  # dead slots, [A, beam]
    mask = mask.scatter(2, new[:, :, None], True)
    used = (new[:, -1] + 1).tolist()  # they are in order
    short = []
    for cache, slots, end in zip(caches, new, used, strict=True):
        cache.new, cache.used = slots, max(cache.used, end)
        if cache.capacity < cache.used:
            short.append(cache)
    grow(short)
    return mask


def grow(caches: Sequence[Slots]) -> None:
    """Make room for half as many slots again as are used.

    Raises:
        MemoryError: there is no memory for them.
    """
    capacities = [max(FIRST_CAPACITY, cache.used * 3 // 2) for cache in caches]
    size = sum(
        cache.slot_bytes * capacity for cache, capacity in zip(caches, capacities, strict=True)
    )
    most = max(capacities, default=0)
    require_memory(size, torch.device("cpu"), f"keys and values of {most:,} slots")
    for cache, capacity in zip(caches, capacities, strict=True):
        cache.grow(capacity)


def slot_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 on slots of a hypothesis's prefix and -inf on others, [A, beam, slots]."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, float("-inf"))
