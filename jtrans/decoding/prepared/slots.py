"""The keys and values of joint models' hypotheses, in slots that are written in place and reused.

All hypotheses of a sentence share its slots, and a mask says which slots make up each prefix (see
`jtrans.nn.beam_cache`). Neighbouring sentences lie side by side in every slot, so that one product
serves them all, and none moves when another leaves. A new column takes a slot that no hypothesis of
its sentence needs any more. That saves half the memory: in a search with beam 5 less than half of
the columns written are still alive.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.nn.memory import require_memory

FIRST_CAPACITY = 32


class Slots:
    """The slots of a group of sentences in all layers.

    Args:
        layers: their number.
        positions: R, the sum of the sentences' lengths.
        width: E.
        dtype: of keys and values.
    """

    def __init__(self, layers: int, positions: int, width: int, dtype: torch.dtype) -> None:
        self.held = [torch.empty(2, 0, positions, width, dtype=dtype) for _ in range(layers)]
        self.used = 0  # no slot from here on was ever written

    @property
    def capacity(self) -> int:
        """The number of slots there is room for."""
        return self.held[0].shape[1]

    @property
    def positions(self) -> int:
        """R."""
        return self.held[0].shape[2]

    @property
    def slot_bytes(self) -> int:
        """The memory of one slot."""
        _, _, R, E = self.held[0].shape
        return len(self.held) * 2 * R * E * self.held[0].element_size()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` slots; those not yet written are 0, as they are multiplied."""
        for n, held in enumerate(self.held):
            larger = held.new_empty(2, capacity, *held.shape[2:])
            larger[:, : self.used] = held[:, : self.used]
            larger[:, self.used :] = 0
            self.held[n] = larger

    def write(self, layer: int, places: Tensor, columns: Tensor) -> None:
        """Write keys and values, [n, 2E], to `places`, [n]: slot * R + position."""
        E = columns.shape[1] // 2
        for held, part in zip(self.held[layer], columns.split(E, 1), strict=True):
            held.view(-1, E).index_copy_(0, places, part)

    def read(self, layer: int, positions: slice, heads: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the used slots at r positions, two views [r H, used, D]."""
        held = self.held[layer][:, : self.used, positions].unflatten(-1, (heads, -1)).flatten(2, 3)
        k, v = held.transpose(1, 2)
        return k, v


def take_slots(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Give each hypothesis a new slot of its own.

    Args:
        mask: True where a slot belongs to a hypothesis's prefix, [A, beam, slots].

    Returns:
        The mask with the new slots, and more columns if there were too few; and the new slots,
        in order, [A, beam].
    """
    beam = mask.shape[1]
    is_live = mask.any(1)  # [A, slots]
    missing = beam - (is_live.shape[1] - int(is_live.sum(1).max()))
    if missing > 0:
        mask, is_live = pad(mask, (0, missing)), pad(is_live, (0, missing))
    new = is_live.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]  # dead slots, [A, beam]
    return mask.scatter(2, new[:, :, None], True), new


def reserve(caches: Sequence[Slots], used: Sequence[int]) -> None:
    """Make room for the used slots of each cache, and half as many again where it must grow.

    Args:
        caches: of the groups.
        used: how many slots of each are used.

    Raises:
        MemoryError: there is no memory for them.
    """
    grown = {
        cache: max(FIRST_CAPACITY, end * 3 // 2)
        for cache, end in zip(caches, used, strict=True)
        if cache.capacity < end
    }
    size = sum(cache.slot_bytes * capacity for cache, capacity in grown.items())
    most = max(grown.values(), default=0)
    require_memory(size, torch.device("cpu"), f"keys and values of {most:,} slots")
    for cache, capacity in grown.items():
        cache.grow(capacity)
    for cache, end in zip(caches, used, strict=True):
        cache.used = max(cache.used, end)
