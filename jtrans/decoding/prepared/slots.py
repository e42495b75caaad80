"""The keys and values of joint models' hypotheses, in slots that are written in place and reused.

All hypotheses of a sentence share its slots, and a mask marks the slots of each prefix (see
`jtrans.nn.beam_cache`). Neighbouring sentences lie side by side in every slot, so that one product
serves them all, and none moves when another leaves. A new column goes into a slot that no
hypothesis of its sentence needs any more. That saves half the memory: in a search with beam 5 less
than half of the columns written are still alive.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.nn.memory import require_memory

FIRST_CAPACITY = 32
# The most bytes of a tensor that is allocated before all of it is needed. The C library gives
# larger ones back to the system when they are freed (`keep_freed_memory`), and fresh memory is
# slow: growing tensors of 39 MB by half took a quarter of a search's time.
AT_ONCE = 31 * 2**20


class Slots:
    """The slots of a group of sentences in all layers.

    Args:
        layers: number of layers.
        positions: R, the sum of the sentences' lengths.
        width: E.
        dtype: type of keys and values.
        expected: the number of slots that are likely to be used.

    Attributes:
        held: keys and values of each layer, two tensors [slots, R, E].
    """

    def __init__(
        self, layers: int, positions: int, width: int, dtype: torch.dtype, expected: int
    ) -> None:
        empty = torch.empty(0, positions, width, dtype=dtype)
        self.held = [(empty, empty)] * layers
        self.used = 0  # slots from here on have never been written
        slot_bytes = positions * width * empty.element_size()
        self.first_capacity = max(FIRST_CAPACITY, min(expected, AT_ONCE // slot_bytes))

    @property
    def capacity(self) -> int:
        """The number of slots there is room for."""
        return len(self.held[0][0])

    @property
    def positions(self) -> int:
        """R."""
        return self.held[0][0].shape[1]

    @property
    def slot_bytes(self) -> int:
        """The memory of one slot."""
        _, R, E = self.held[0][0].shape
        return len(self.held) * 2 * R * E * self.held[0][0].element_size()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` slots; memory beyond the used ones is not touched."""
        self.held = [
            (self._larger(keys, capacity), self._larger(values, capacity))
            for keys, values in self.held
        ]

    def use(self, end: int) -> None:
        """Use the slots before `end`; new ones are set to 0, as they take part in products."""
        if end > self.used:
            for pair in self.held:
                for each in pair:
                    each[self.used : end].zero_()
            self.used = end

    def write(self, layer: int, places: Tensor, columns: Tensor) -> None:
        """Write keys and values, [n, 2E], to `places`, [n]: slot * R + position."""
        E = columns.shape[1] // 2
        for held, part in zip(self.held[layer], columns.split(E, 1), strict=True):
            held.view(-1, E).index_copy_(0, places, part)

    def read(self, layer: int, positions: slice, heads: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the used slots at r positions, two views [r H, used, D]."""
        keys, values = (
            held[: self.used, positions].unflatten(-1, (heads, -1)).flatten(1, 2).transpose(0, 1)
            for held in self.held[layer]
        )
        return keys, values

    def _larger(self, held: Tensor, capacity: int) -> Tensor:
        larger = held.new_empty(capacity, *held.shape[1:])
        larger[: self.used] = held[: self.used]
        return larger


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
        caches: the slots of each group.
        used: how many slots of each are used.

    Raises:
        MemoryError: there is no memory for them.
    """
    grown = {
        cache: max(cache.first_capacity, end * 3 // 2)
        for cache, end in zip(caches, used, strict=True)
        if cache.capacity < end
    }
    size = sum(cache.slot_bytes * capacity for cache, capacity in grown.items())
    most = max(grown.values(), default=0)
    require_memory(size, torch.device("cpu"), f"keys and values of {most:,} slots")
    for cache, capacity in grown.items():
        cache.grow(capacity)
    for cache, end in zip(caches, used, strict=True):
        cache.use(end)
