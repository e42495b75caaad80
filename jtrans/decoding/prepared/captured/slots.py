"""A step of the search on buffers of fixed sizes, whose keys and values are kept in slots.

What other prepared steps do with numbers in Python is done with tensors here: the position and the
new slots are counted on the device, and the order of the hypotheses is a buffer that is read at the
beginning of the step. Attention reads all slots; a bias of -inf leaves out those that are not in a
hypothesis's prefix, or not yet written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.captured.graphs import Bucket, StaticStep
from jtrans.decoding.prepared.encoder import PreparedEmbedding
from jtrans.decoding.prepared.target import keep_sentences, own_slots
from jtrans.nn.beam_cache import live_slots
from jtrans.nn.gpu.row_linear import fused_rows
from jtrans.nn.gpu.slot_attention import slot_attention


class StaticSource(Protocol):
    """What a step reads of the sources, in buffers or of a search."""

    @property
    def length(self) -> int:
        """S."""
        ...

    def load(self, other: Self) -> None:
        """Copy the sentences of `other` to the front of these buffers; clear the rest."""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Move some sentences, [B'], to the front of these buffers."""
        ...

    def first(self, count: int) -> Self:
        """Return the first sentences, without a copy."""
        ...


Source = TypeVar("Source", bound=StaticSource)


@dataclass(frozen=True)
class Contents(Generic[Source]):
    """What the buffers of a search hold."""

    held: list[Tensor]  # keys and values of each layer, [2, B, ..., slots, D]
    bias: Tensor  # 0 on the slots of a hypothesis's prefix, -inf on others, [B * beam, slots]
    source: Source  # the sources of the sentences
    used: int  # slots written
    length: int  # positions read

    def compacted(self) -> Contents[Source]:
        """Leave out slots that no hypothesis needs, if many are dead; the check waits for a GPU."""
        bias, B = self.bias[:, : self.used], self.held[0].shape[1]
        beam = len(bias) // B
        is_live = (bias == 0.0).view(B, beam, self.used).any(1)  # [B, slots]
        slots = live_slots(is_live)  # [B, count]
        if slots is None:
            return self
        bias = bias.gather(1, slots.repeat_interleave(beam, dim=0))
        held = [_keep_slots(layer, slots) for layer in self.held]
        return Contents(held, bias, self.source, slots.shape[1], self.length)


def _keep_slots(held: Tensor, slots: Tensor) -> Tensor:
    """Return the slots [B, count] of each sentence, [2, B, ..., count, D]."""
    B, count = slots.shape
    index = slots.view(1, B, *[1] * (held.dim() - 4), count, 1)
    return held.gather(-2, index.expand(*held.shape[:-2], count, held.shape[-1]))


class SlotStep(StaticStep, Generic[Source]):
    """A step of a bucket's size, with its buffers.

    Args:
        bucket: the sizes.
        embedding: embedding of target tokens.
        source: the buffers of the sources.
        layers: how many have keys and values.
        lines: the axes of their lines of attention: heads, or source positions and heads.
        width: D, of a head.
        dtype: type of keys and values.
        device: where the buffers are.
    """

    def __init__(
        self,
        bucket: Bucket,
        embedding: PreparedEmbedding,
        source: Source,
        *,
        layers: int,
        lines: Sequence[int],
        width: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.bucket, self.embedding, self.source = bucket, embedding, source
        B, beam, slots = bucket.lanes, bucket.beam, bucket.slots
        self.token = torch.zeros(B * beam, dtype=torch.int64, device=device)
        self.row = torch.arange(B * beam, device=device)  # which hypothesis each one continues
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.new = torch.arange(beam, device=device)  # the slots to write
        shape = (2, B, *lines, slots, width)
        self.held = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.size = sum(held.nbytes for held in self.held)
        self.bias = torch.zeros(B * beam, slots, dtype=dtype, device=device)
        self.all = torch.arange(B * beam, device=device)
        self._own = own_slots(beam, self.bias).repeat(B, 1)  # [B * beam, beam]
        # what else is captured with this step, by the options of the search
        self.choices: dict[SearchOptions, Any] = {}
        # a prefix has a slot of its own for each of its positions
        self._positions = embedding.added(slots + 1)

    def layers_of(self, vectors: Tensor) -> Tensor:
        """Return the hidden states of embedded tokens, [B, beam, E] -> [B * beam, E]."""
        raise NotImplementedError

    def work(self) -> Tensor:
        """Read a token of each hypothesis and return hidden states, [lanes * beam, E]."""
        bucket, embedding = self.bucket, self.embedding
        self.bias.copy_(self.bias.index_select(0, self.row))
        self.bias.index_copy_(1, self.new, self._own)
        vectors = F.embedding(self.token, embedding.weight)
        added = self._positions.index_select(0, self.position)
        x = torch.add(added, vectors, alpha=embedding.scale)
        with fused_rows():
            hidden = self.layers_of(x.view(bucket.lanes, bucket.beam, -1))
        self.row.copy_(self.all)
        self.position.add_(1)
        self.new.add_(bucket.beam)
        return hidden

    def attend_to_slots(self, layer: int, parts: Tensor) -> Tensor:
        """Write the new slots and attend to those of each hypothesis's prefix.

        Args:
            layer: its number.
            parts: queries, scaled, keys and values, [3, B, A, H, beam, D]; A is 1, or the source
                positions.

        Returns:
            The weighted sums of values, [B, A, H, beam, D], with the memory layout of `parts`.
        """
        held = self.held[layer]
        by_line = held.view(2, *parts.shape[1:4], *held.shape[-2:])
        return slot_attention(parts, by_line, self.bias, self.new)  # type: ignore[no-any-return]

    def rewind(self) -> None:
        """Write the first slots next; what the buffers hold is lost."""
        self.row.copy_(self.all)
        self.position.zero_()
        self.new.copy_(self.all[: self.bucket.beam])

    def load(self, contents: Contents[Source]) -> None:
        """Fill the buffers with the state of a search; lanes that it does not need are idle."""
        self.load_slots(contents)
        self.source.load(contents.source)

    def load_slots(self, contents: Contents[Source]) -> None:
        """Fill all buffers but those of the sources."""
        used, count = contents.used, len(contents.bias)
        for held, other in zip(self.held, contents.held, strict=True):
            held.zero_()  # nan left by another search would spread even with weight 0
            part = held[:, : other.shape[1]]
            if held.dim() > 5:  # lines of source positions
                part = part[:, :, : other.shape[2]]
            part[..., :used, :] = other[..., :used, :]
        self.bias.fill_(-math.inf)[:count, :used] = contents.bias[:, :used]
        self.row.copy_(self.all)
        self.position.fill_(contents.length)
        torch.add(self.all[: self.bucket.beam], used, out=self.new)

    def keep(self, sentences: Tensor) -> None:
        """Move some sentences, [B'], to the front."""
        for held in self.held:
            keep_sentences(held, 1, sentences)
        self.source.keep(sentences)

    def contents(self, sentences: int, used: int, length: int) -> Contents[Source]:
        """Return the state of the first sentences, in the order of `row`."""
        count = sentences * self.bucket.beam
        bias = self.bias.index_select(0, self.row)[:count]
        held = [each[:, :sentences] for each in self.held]
        return Contents(held, bias, self.source.first(sentences), used, length)
