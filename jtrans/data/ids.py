"""The token ids of a split and the labels of its pieces, memory-mapped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jtrans.data.damage import damaged

_log = logging.getLogger(__name__)

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")

SENTENCES_AT_ONCE = 100_000  # in counting labels
IGNORE = -100  # marks a piece without a label; PyTorch's cross-entropy ignores it by default


class IdStore:
    """One side of a split: ids of its sentences, int32, or their labels, int8, memory-mapped."""

    def __init__(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self._ids = ids
        self._offsets = offsets

    @classmethod
    def open(cls, folder: Path, split: str, side: Side) -> IdStore:
        """Map the arrays of one side of a split.

        Raises:
            CorpusError: a file is missing, cut off, or does not fit the other.
        """
        ids = _load(folder / f"{split}.{side}.npy", np.dtype(np.int32))
        offsets = np.array(_load(folder / f"{split}.{side}.offsets.npy", np.dtype(np.int64)))
        is_sound = offsets.size > 0 and offsets[0] == 0 and offsets[-1] == ids.size
        if not is_sound or (np.diff(offsets) < 1).any():
            raise damaged(folder, f"{split}.{side}.offsets.npy does not fit {split}.{side}.npy")
        return cls(ids, offsets)

    def labels(self, folder: Path, split: str, kind: str) -> IdStore:
        """Map the labels of these ids.

        Raises:
            CorpusError: the file is missing or does not fit.
        """
        name = f"{split}.source.{kind}.npy"
        labels = _load(folder / name, np.dtype(np.int8))
        if labels.size != self._ids.size:
            raise damaged(folder, f"{name} does not fit {split}.source.npy")
        return IdStore(labels, self._offsets)

    @property
    def flat(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """All ids concatenated, [ids], and where each sentence begins, [sentences + 1]."""
        return self._ids, self._offsets

    def __len__(self) -> int:
        """Count the sentences."""
        return self._offsets.size - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """Return the ids of one sentence, EOS last."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        return self._ids[self._offsets[index] : self._offsets[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, EOS counted, [sentences]."""
        return np.diff(self._offsets)

    @cached_property
    def labelled(self) -> NDArray[np.int64]:
        """The number of labels of each sentence that are not `IGNORE`, [sentences]."""
        counts = np.zeros(len(self), np.int64)
        for first in range(0, len(self), SENTENCES_AT_ONCE):  # the ids may be larger than memory
            ends = self._offsets[first : first + SENTENCES_AT_ONCE + 1]
            is_label = self._ids[ends[0] : ends[-1]] != IGNORE
            sums = np.add.reduceat(is_label, ends[:-1] - ends[0], dtype=np.int64)
            counts[first : first + SENTENCES_AT_ONCE] = sums
        return counts

    @property
    def highest(self) -> int:
        """The highest id."""
        return int(self._ids.max(initial=0))


@dataclass(frozen=True)
class ParallelIds:
    """Both sides of a split as ids; pair i is `source[i]` and `target[i]`."""

    source: IdStore
    target: IdStore
    # labels of the source ids by kind ("pos", "ner") if the corpus has any; `IGNORE`: no label
    labels: Mapping[str, IdStore] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.source)


def _load(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        # NumPy's own message advises allow_pickle, which would be unsafe
        reason = getattr(error, "strerror", None) or "it is not a complete NumPy array"
        raise damaged(path.parent, f"cannot read {path.name}: {reason}") from error
    _log.info("read %s", path)
    if array.dtype != dtype or array.ndim != 1:
        raise damaged(path.parent, f"{path.name} does not hold a list of {dtype}")
    return array
