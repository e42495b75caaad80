"""Keys and values of all layers and hypotheses, in slots that are written in place.

As in `jtrans.nn.beam_cache`, the hypotheses of a sentence share its slots, and reordering the beam
moves no vectors. Here the keys and values of a layer are one tensor, and the slots of a
hypothesis's prefix are kept as the bias that attention adds, 0 or -inf.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.decoding.prepared.fixed_linear import input_type
from jtrans.nn.beam_cache import KeyValueCache, live_slots
from jtrans.nn.memory import require_memory

MOST_AT_ONCE = 256  # slots allocated for expected positions
# The fewest positions that attention reads: on a CPU the softmax over less than a vector of AVX-512
# is computed one number at a time. 1,280 rows of 14 numbers took 296 us, of 16 numbers 20.
LEAST_READ = 16


class TargetSlots:
    """The self-attention of L decoder layers to the positions read so far.

    Args:
        layers: L.
        sentences: B.
        beam: hypotheses of each sentence.
        heads: H.
        width: E.
        expected: about how many positions there will be, for the first allocation.
        dtype: type of keys and values.
        device: where they are.

    Attributes:
        held: keys and values of each layer, [2, B, H, room, D].
        bias: 0 on the slots that make up a hypothesis's prefix, -inf on others, [B * beam, room].
    """

    def __init__(
        self,
        layers: int,
        sentences: int,
        beam: int,
        *,
        heads: int,
        width: int,
        expected: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.beam = beam
        self.expected = expected
        self.length = 0  # positions read
        self.used = 0  # slots written
        # a search begins with one hypothesis of each sentence
        room = max(2 * beam, LEAST_READ)
        # a tensor for each layer: a single large one would be returned to the system when it is
        # freed, and writing to fresh memory took as long as attention itself
        shape = (2, sentences, heads, room, width // heads)
        self.held = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.bias = torch.full((sentences * beam, room), -math.inf, dtype=dtype, device=device)
        self._own = own_slots(beam, self.bias)
        self._parts = self._by_head()
        self._new: list[Tensor] = []  # per layer, where to write: [2, B, H, beam, D]
        self._keys: list[Tensor] = []  # per layer, transposed: [B * H, D, slots]
        self._values: list[Tensor] = []  # [B * H, slots, D]
        self._added = self.bias  # [B, 1, beam, slots], of one sentence [1, beam, slots]

    @property
    def sentences(self) -> int:
        """B."""
        return self.held[0].shape[1]

    @property
    def room(self) -> int:
        """The number of slots that there is memory for."""
        return self.held[0].shape[3]

    def advance(self) -> None:
        """Give each hypothesis a new slot of its own, in all layers."""
        B = self.sentences
        while self.used + self.beam > self.room:
            self._make_room()
        first, self.used = self.used, self.used + self.beam
        self.length += 1
        self._new = [held.narrow(3, first, self.beam) for held in self.held]
        slots = max(self.used, LEAST_READ)
        self._keys = [keys.narrow(2, 0, slots) for keys, _ in self._parts]
        self._values = [values.narrow(1, 0, slots) for _, values in self._parts]
        bias = self.bias.view(*((1,) if B == 1 else (B, 1)), self.beam, -1)
        bias[..., first : self.used] = self._own
        self._added = bias[..., :slots]

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Write the slots of the new position and attend to all slots of each prefix.

        Args:
            layer: its number.
            projected: queries, scaled by 1/sqrt(D), keys and values, [N, 3E].

        Returns:
            The weighted sums of values, heads side by side, [N, E].
        """
        new = self._new[layer]
        _, B, H, beam, D = new.shape
        parts = projected.view(B, beam, 3, H, D).permute(2, 0, 3, 1, 4)  # [3, B, H, beam, D]
        new.copy_(parts[1:])
        queries = parts[0, 0] if B == 1 else parts[0].reshape(B * H, beam, D)
        if queries.dtype != new.dtype:
            queries = queries.to(new.dtype)
        scores = self._scores(queries, self._keys[layer], B)  # [B * H, beam, slots]
        mixed = torch.bmm(weights_of(scores), self._values[layer])
        if B == 1:
            return mixed.transpose(0, 1).reshape(beam, H * D)
        return mixed.view(B, H, beam, D).transpose(1, 2).reshape(B * beam, H * D)

    def _scores(self, queries: Tensor, keys: Tensor, sentences: int) -> Tensor:
        """Return Q K^T, -inf on slots that are not a hypothesis's own, [B * H, beam, slots]."""
        if sentences == 1:
            return torch.baddbmm(self._added, queries, keys)
        scores = torch.bmm(queries, keys)
        scores.view(sentences, -1, *scores.shape[1:]).add_(self._added)
        return scores

    def select(self, rows: Tensor) -> None:
        """Keep other hypotheses, rows [B', beam'] of the N old ones, in place."""
        B, beam = rows.shape
        if self.sentences != B:
            sentences = rows[:, 0] // self.beam
            for held in self.held:
                keep_sentences(held[..., : self.used, :], 1, sentences)
            self.held = [held[:, :B] for held in self.held]
            self._parts = self._by_head()
        self.bias = self.bias.index_select(0, rows.flatten())
        if beam != self.beam:
            self.beam = beam
            self._own = own_slots(beam, self.bias)

    def _by_head(self) -> list[tuple[Tensor, Tensor]]:
        """Return keys, [B * H, D, room], and values, [B * H, room, D], of each layer."""
        _, B, H, room, D = self.held[0].shape
        flat = [held.view(2, B * H, room, D) for held in self.held]
        return [(each[0].mT, each[1]) for each in flat]

    def _make_room(self) -> None:
        """Free slots that no hypothesis needs if many are dead, or else add some."""
        if self.used > KeyValueCache.first_capacity:
            is_own = (self.bias[:, : self.used] == 0.0).view(self.sentences, self.beam, self.used)
            slots = live_slots(is_own.any(1))  # [B, count]
            if slots is not None:
                self._keep_slots(slots)
                return
        more = self.used if self.used < KeyValueCache.long else self.used // 4
        at_once = min(self.beam * self.expected, MOST_AT_ONCE)
        room = max(self.used + self.beam, self.used + more, at_once)
        layer = self.held[0]
        slot_bytes = len(self.held) * layer[..., :1, :].numel() * layer.element_size()
        require_memory(
            (self.room + room) * slot_bytes, layer.device, f"keys and values of {room:,} slots"
        )
        read = max(self.used, LEAST_READ)
        for n, held in enumerate(self.held):
            self.held[n] = held.new_empty((*held.shape[:3], room, held.shape[4]))
            self.held[n][..., :read, :] = held[..., :read, :]
        self._parts = self._by_head()
        self.bias = pad(self.bias[:, : self.used], (0, room - self.used), value=-math.inf)

    def _keep_slots(self, slots: Tensor) -> None:
        """Keep the slots [B, count] of each sentence, in this order."""
        _, B, H, _, D = self.held[0].shape
        self.used = slots.shape[1]
        index = slots[None, :, None, :, None].expand(2, B, H, self.used, D)
        for held in self.held:
            held[..., : self.used, :] = held.gather(3, index)
        rows = slots.repeat_interleave(self.beam, dim=0)  # [N, count]
        kept = self.bias.gather(1, rows)
        self.bias.fill_(-math.inf)[:, : self.used] = kept


def own_slots(beam: int, like: Tensor) -> Tensor:
    """Return the bias of the new slots, of which each hypothesis reads its own, [beam, beam]."""
    return torch.full((beam, beam), -math.inf).fill_diagonal_(0.0).to(like)


def at_least_read(bias: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
    """Return sources padded to `LEAST_READ` positions, if they are shorter.

    Args:
        bias: 0 on real source positions, -inf on padding, [..., S].
        states: vectors of the positions, [..., S, C].
    """
    more = LEAST_READ - bias.shape[-1]
    if more <= 0:
        return bias, *states
    return pad(bias, (0, more), value=-math.inf), *(pad(x, (0, 0, 0, more)) for x in states)


def keep_sentences(held: Tensor, dim: int, sentences: Tensor) -> Tensor:
    """Move sentences to the front of `held`, in place, and return that part of it.

    Args:
        held: a tensor with an axis of sentences.
        dim: that axis.
        sentences: those to move, in order, [B'].
    """
    B = len(sentences)
    place = torch.arange(B, device=sentences.device)
    is_moved = sentences != place
    moved = sentences[is_moved]
    held.index_copy_(dim, place[is_moved], held.index_select(dim, moved))
    return held.narrow(dim, 0, B)


def attention_type(products: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the type of keys, values and attention, given that of the other products.

    On a CPU it is float32 at least: batches of tiny products in bfloat16 take longer there. A step
    of 6 layers for one sentence took 3.8 ms, and 5.7 ms in bfloat16 throughout.
    """
    if products == torch.bfloat16 and device.type == "cpu":
        return torch.float32
    return input_type(products)


def weights_of(scores: Tensor) -> Tensor:
    """Return the softmax of scores over the last axis, computed in float32 at least."""
    if scores.is_cuda or scores.dtype in (torch.float32, torch.float64):
        return torch.softmax(scores, -1)  # a GPU's kernel computes in float32, whatever it reads
    return torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype)
