"""What the convolutions of pervasive attention have read, in rings that are written in place.

A convolution reads the last R rows of a hypothesis's grid. The rows of a sentence lie in a ring of
R x beam places: a new row replaces one that no hypothesis can need any more. No row moves when
hypotheses change their order or sentences leave, only the list of places of each hypothesis's rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from jtrans.nn.memory import require_memory


class GridRings:
    """The rows of N = A x beam hypotheses in all layers.

    Args:
        sizes: the size of a row in each layer, S x channels.
        count: R, the rows that a convolution reads, the new one included.
        sentences: A.
        beam: hypotheses of each.
        dtype: type of the rows.
    """

    def __init__(
        self, sizes: Sequence[int], count: int, *, sentences: int, beam: int, dtype: torch.dtype
    ) -> None:
        self.sizes, self.count, self.beam, self.dtype = sizes, count, beam, dtype
        self.length = 0  # rows written so far
        self._places = torch.empty(sentences * beam, 0, dtype=torch.int64)  # [N, up to R]
        self._rings = self._allocate(sentences)
        self._first = self._firsts(sentences)
        self._read = self._new = self._first.flatten()  # places of all rows, of the new ones

    def __len__(self) -> int:
        """Return N."""
        return len(self._places)

    def advance(self) -> None:
        """Give each hypothesis a place for its next row."""
        if self._room != self.beam:
            self._change_beam()
        turn = self.length % self.count
        new = (self._first + turn * self.beam).flatten()[:, None]
        done = max(0, self._places.shape[1] + 1 - self.count)
        self._places = torch.cat([self._places[:, done:], new], dim=1)
        self._read = self._places.flatten()
        self._new = self._places[:, -1]
        self.length += 1

    def append(self, layer: int, rows: Tensor) -> Tensor:
        """Write the new rows of a layer, [N, size], and return all that it reads, [N, r, size]."""
        ring = self._rings[layer]
        ring.index_copy_(0, self._new, rows)
        return ring.index_select(0, self._read).view(len(self._new), -1, rows.shape[1])

    def select(self, rows: Tensor) -> None:
        """Keep the hypotheses `rows`, [A', beam'], of the N old ones."""
        if len(rows) != len(self._first):
            self._first = self._first.index_select(0, rows[:, 0] // self.beam)
        self._places = self._places.index_select(0, rows.flatten())
        self.beam = rows.shape[1]

    @property
    def _room(self) -> int:
        """The number of hypotheses of each sentence that there are places for."""
        return self._first.shape[1]

    def _change_beam(self) -> None:
        """Move all rows to rings of another size, at the beginning of a search."""
        held, n = self._rings, self._places.shape[1]
        sentences = len(self._first)
        self._rings = self._allocate(sentences)
        self._first = self._firsts(sentences)
        turns = torch.arange(self.length - n, self.length) % self.count
        places = self._first.flatten()[:, None] + turns * self.beam  # [N, n]
        for ring, old in zip(self._rings, held, strict=True):
            ring[places.flatten()] = old.index_select(0, self._places.flatten())
        self._places = places

    def _firsts(self, sentences: int) -> Tensor:
        """Return the first place of each hypothesis, [A, beam]."""
        size = self.count * self.beam
        return torch.arange(sentences)[:, None] * size + torch.arange(self.beam)

    def _allocate(self, sentences: int) -> list[Tensor]:
        """Return room for the rows of all layers, [A x R x beam, size] each."""
        places = sentences * self.count * self.beam
        size = places * sum(self.sizes) * self.dtype.itemsize
        require_memory(size, torch.device("cpu"), f"{places:,} rows of the grid in every layer")
        return [torch.empty(places, each, dtype=self.dtype) for each in self.sizes]
