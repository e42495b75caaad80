"""Shards: consecutive pairs of a split, which are segmented and encoded together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jtrans.files import read_lines
from jtrans.preparation.work_folder import is_done

# Shards are larger for larger text: enough of them for all workers, but not too many files.
USUAL_SHARDS = 32
SMALLEST_SHARD, LARGEST_SHARD = 1000, 20_000

# The note of segmentation on a pair: the code of a reason to drop it, whether the strict limit of
# length ratios would drop it, its key, and the keys of its sides (`jtrans.corpora.overlap`).
PAIR_NOTE = np.dtype(
    [
        ("reason", "u1"),
        ("unlike", "?"),
        ("key", "<u8", (2,)),
        ("source", "<u8"),
        ("target", "<u8"),
    ]
)
PairNotes = np.ndarray[tuple[int], np.dtype[np.void]]


@dataclass(frozen=True)
class Shard:
    """Consecutive pairs of a split, and their segmented lines in the work folder."""

    folder: Path  # where its files are
    split: str  # the split it is cut from
    index: int  # its number among the shards of the split
    start: int  # position of its first pair in the split
    stop: int  # position after its last pair

    def __len__(self) -> int:
        return self.stop - self.start

    def path(self, ending: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.split}.{self.index:05d}.{ending}"

    def words_lines(self, side: int) -> list[str]:
        """Read the segmented lines of source (0) or target (1)."""
        return read_lines(self.path(("source.txt", "target.txt")[side]))

    def notes(self) -> PairNotes:
        """Read the note on each pair, as `PAIR_NOTE`, [pairs]."""
        notes: PairNotes = np.load(self.path("notes.npy"))
        return notes

    def is_segmented(self) -> bool:
        """Return whether all its files are present and complete."""
        return is_done(self.path("segmented.json"))


@dataclass(frozen=True)
class ShardPart:
    """The pairs of a shard that go to one split."""

    shard: Shard
    mask: NDArray[np.bool_]  # True for its pairs that go there, [pairs]
    split: str  # the split: the shard's own, or valid where that is taken from train

    def path(self, ending: str) -> Path:
        """Return the path of a file of these pairs."""
        return self.shard.folder / f"{self.split}.{self.shard.index:05d}.{ending}"

    def positions(self) -> list[int]:
        """Return the positions of the pairs in the text they were read from."""
        positions: list[int] = (np.flatnonzero(self.mask) + self.shard.start).tolist()
        return positions

    def choose(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of these pairs, given all lines of the text they were read from."""
        return self._masked(lines[self.shard.start : self.shard.stop])

    def words_lines(self, side: int) -> list[str]:
        """Read their segmented lines, of source (0) or target (1)."""
        return self._masked(self.shard.words_lines(side))

    def _masked(self, lines: Sequence[str]) -> list[str]:
        return [lines[i] for i in np.flatnonzero(self.mask).tolist()]


def plan_shards(folder: Path, split: str, size: int) -> list[Shard]:
    """Cut a split of `size` pairs into shards, the same for any number of workers."""
    pairs = min(max(-(-size // USUAL_SHARDS), SMALLEST_SHARD), LARGEST_SHARD)
    starts = range(0, size, pairs)
    return [Shard(folder, split, i, at, min(at + pairs, size)) for i, at in enumerate(starts)]
