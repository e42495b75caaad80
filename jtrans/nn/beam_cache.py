"""The cache of step-by-step decoding: keys and values in slots that never move.

All hypotheses of a sentence share its slots. When the beam is reordered, all that moves with a
hypothesis is its row of a boolean mask, which marks the slots of its prefix. The hypotheses of a
sentence are the queries of one attention over the sentence's slots: a common ancestor is stored
and read once, and reordering moves bits, not vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jtrans.nn.memory import require_memory
from jtrans.nn.softmax import mask_bias


class KeyValueCache:
    """Keys and values of the slots of one layer, [B, ..., H, slots, D].

    When the slots are used up, the capacity doubles, so that most are written in place; from `long`
    slots on it grows by a quarter, which costs little beside reading all slots at every step.

    Args:
        checked: the number of caches of this size for which this one checks the available memory
            before it grows: all caches of a search in its first one, 0 in the others.
    """

    first_capacity = 64
    long = 512

    def __init__(self, checked: int = 0) -> None:
        self.checked = checked
        self.slots = 0
        self._held: list[Tensor] = []  # keys and values, [B, ..., H, capacity, D]

    @property
    def capacity(self) -> int:
        """The number of slots there is room for."""
        return self._held[0].shape[-2] if self._held else self.first_capacity

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new slots, [B, ..., H, new, D] each; return those of all."""
        first, self.slots = self.slots, self.slots + k.shape[-2]
        if not self._held or self.capacity < self.slots:
            self._grow(k)
        for held, new in zip(self._held, (k, v), strict=True):
            held[..., first : self.slots, :] = new
        keys, values = self.tensors()
        return keys, values

    def tensors(self) -> list[Tensor]:
        """Return keys and values, [B, ..., H, slots, D] each; none before the first slot."""
        return [held[..., : self.slots, :] for held in self._held]

    def keep_sentences(self, rows: Tensor) -> None:
        """Keep the sentences `rows`, [B']."""
        self._held = [held.index_select(0, rows) for held in self._held]

    def keep_hypotheses(self, rows: Tensor) -> None:
        """Keep the hypotheses `rows`, [B', beam']: slots never move, so nothing changes."""

    def keep_slots(self, slots: Tensor) -> None:
        """Keep the slots [B, count] of each sentence."""
        B, self.slots = slots.shape
        for held in self._held:
            shape = (B, *[1] * (held.dim() - 3), self.slots, 1)
            index = slots.view(shape).expand(*held.shape[:-2], self.slots, held.shape[-1])
            held[..., : self.slots, :] = held.gather(-2, index)

    def _grow(self, like: Tensor) -> None:
        *lines, _, D = like.shape
        larger = 2 * self.slots if self.slots < self.long else self.slots + self.slots // 4
        capacity = max(self.first_capacity, larger)
        old = self._held or [like[..., :0, :]] * 2
        if self.checked:
            slot_bytes = 2 * like[..., :1, :].numel() * like.element_size()  # key and value
            more = self.checked * (capacity - old[0].shape[-2]) + old[0].shape[-2]
            require_memory(more * slot_bytes, like.device, f"keys and values of {capacity:,} slots")
        self._held = [like.new_empty(*lines, capacity, D) for _ in old]
        for held, before in zip(self._held, old, strict=True):
            held[..., : before.shape[-2], :] = before


@dataclass
class BeamCache:
    """The caches of all layers, and the slots that make up each hypothesis's prefix."""

    mask: Tensor  # True where a slot belongs to a hypothesis's prefix, [B, beam, slots]
    layers: list[KeyValueCache]  # one cache per layer
    length: int = 0  # positions read so far

    @classmethod
    def empty(cls, layers: int, sentences: int, beam: int, device: torch.device) -> BeamCache:
        """Return the cache of empty prefixes."""
        mask = torch.zeros(sentences, beam, 0, dtype=torch.bool, device=device)
        return cls(mask, [KeyValueCache(0 if n else layers) for n in range(layers)])

    @property
    def beam(self) -> int:
        """The number of hypotheses per sentence."""
        return self.mask.shape[1]

    def advance(self) -> Tensor | None:
        """Give each hypothesis a new slot of its own.

        Returns:
            0 on slots of the prefix, -inf on others, [B, beam, slots]; None when all are.
        """
        B, beam, _ = self.mask.shape
        new_slots = torch.eye(beam, dtype=torch.bool, device=self.mask.device).expand(B, -1, -1)
        self.mask = torch.cat([self.mask, new_slots], dim=2)
        self.length += 1
        if beam == 1 and self.mask.shape[2] == self.length:
            return None  # one hypothesis per sentence so far: every slot is its own
        return mask_bias(self.mask)

    def select(self, rows: Tensor) -> BeamCache:
        """Return the cache of other hypotheses; the old cache must not be used afterwards.

        Args:
            rows: indices, among all B * beam, of the surviving hypotheses of each sentence that
                continues, [B', beam'].
        """
        sentences = rows[:, 0] // self.beam
        mask = self.mask[sentences[:, None], rows % self.beam]  # [B', beam', slots]
        if len(rows) != len(self.mask):
            for layer in self.layers:
                layer.keep_sentences(sentences)
        for layer in self.layers:
            layer.keep_hypotheses(rows)
        chosen = BeamCache(mask, self.layers, self.length)
        chosen._drop_dead_slots()
        return chosen

    def _drop_dead_slots(self) -> None:
        """Free slots that no hypothesis needs, when the capacity is reached and many are dead."""
        if self.mask.shape[2] + self.beam <= self.layers[0].capacity:
            return
        live = live_slots(self.mask.any(1))  # [B, count]
        if live is None:
            return
        self.mask = self.mask.gather(2, live[:, None, :].expand(-1, self.beam, -1))
        for layer in self.layers:
            layer.keep_slots(live)


def live_slots(is_live: Tensor) -> Tensor | None:
    """Return the slots that hypotheses need, in order, [B, count]; None if few slots are dead.

    A sentence that needs fewer slots than others keeps some dead ones, too.

    Args:
        is_live: whether any hypothesis of the sentence needs a slot, [B, slots].
    """
    slots = is_live.shape[1]
    count = int(is_live.sum(1).max())
    if count > (slots // 2 if slots < KeyValueCache.long else 3 * slots // 4):
        return None
    return (~is_live).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
