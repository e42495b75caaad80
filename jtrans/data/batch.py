"""`Batch`: sentence pairs as padded tensors, and their collation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jtrans.data.ids import IGNORE, IdStore, ParallelIds
from jtrans.text.vocabulary import EOS, PAD

Ids: TypeAlias = Sequence[int] | NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of one batch; masks are True where a token is real."""

    source: Tensor  # ids, each sentence ending in EOS, [B, S]
    source_mask: Tensor  # True on real source tokens, [B, S]
    target_in: Tensor  # decoder input, EOS first, [B, T]
    target_out: Tensor  # tokens to predict, EOS last, [B, T]
    target_mask: Tensor  # True on real target tokens, for both, [B, T]
    indices: Tensor  # the positions of the pairs in their split, [B]; they stay on the CPU
    # indices of the N real targets in [B * T], [N]; None if they have not been computed on the CPU
    target_rows: Tensor | None = None
    # labels of the source tokens by kind ("pos", "ner"), if the corpus has any, [B, S] each; IGNORE
    # for tokens without one
    labels: dict[str, Tensor] = field(default_factory=dict)

    @property
    def target_tokens(self) -> int:
        """Count the real target tokens, EOS counted."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on `device`; a copy to a GPU does not keep the CPU waiting."""
        place = torch.device(device)
        # a copy from memory that is not pinned waits; tensors already pinned stay as they are
        batch = self.pinned() if place.type == "cuda" and self.source.is_cpu else self
        is_ahead = place.type != "cpu"  # the CPU must not read what a GPU has not written yet
        return batch._changed(lambda tensor: tensor.to(place, non_blocking=is_ahead))

    def pinned(self) -> Batch:
        """Return the batch in pinned memory, from which a GPU copies while the CPU goes on."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source),
            change(self.source_mask),
            change(self.target_in),
            change(self.target_out),
            change(self.target_mask),
            self.indices,
            None if self.target_rows is None else change(self.target_rows),
            {kind: change(labels) for kind, labels in self.labels.items()},
        )

    def real_targets(self, x: Tensor) -> Tensor:
        """Return `x`, [B, T, ...], at the N real target positions, [N, ...].

        With `target_rows` the CPU does not wait until a GPU has counted them.
        """
        if self.target_rows is None:
            return x[self.target_mask]
        return x.flatten(0, 1).index_select(0, self.target_rows)


def padded(sentences: Sequence[Ids], device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return ids, padded on the right, and the mask of real ones, [B, S] each."""
    lengths = np.array([len(sentence) for sentence in sentences])
    mask = np.arange(lengths.max()) < lengths[:, None]  # [B, S]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = np.concatenate(sentences)
    return torch.from_numpy(ids).to(device=device), torch.from_numpy(mask).to(device=device)


def collate(pairs: ParallelIds, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
    """Return the batch of the pairs at `indices`, [B], in that order, padded on the right."""
    source, source_mask = _pick(pairs.source, indices)  # [B, S]
    target_out, target_mask = _pick(pairs.target, indices)  # [B, T]
    # the end symbol is also the start symbol: shift right, EOS in front
    target_in = torch.full_like(target_out, EOS)
    target_in[:, 1:] = torch.where(target_mask[:, 1:], target_out[:, :-1], PAD)
    return Batch(
        source,
        source_mask,
        target_in,
        target_out,
        target_mask,
        torch.tensor(indices, dtype=torch.int64),
        target_mask.flatten().nonzero()[:, 0],
        {kind: _pick(store, indices, fill=IGNORE)[0] for kind, store in pairs.labels.items()},
    )


def _pick(
    store: IdStore, indices: Sequence[int] | NDArray[np.int64], *, fill: int = PAD
) -> tuple[Tensor, Tensor]:
    """Return some sentences and their mask, [B, S] each, as `padded` does but without a loop."""
    flat, offsets = store.flat
    chosen = np.asarray(indices, np.int64)
    starts = offsets[chosen]
    lengths = offsets[chosen + 1] - starts
    inside = np.arange(lengths.max())
    mask = inside < lengths[:, None]  # [B, S]
    ids = np.full(mask.shape, fill, dtype=np.int64)
    ids[mask] = flat[(starts[:, None] + inside)[mask]]
    return torch.from_numpy(ids), torch.from_numpy(mask)
