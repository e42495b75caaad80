"""`Batch`: sentence pairs as padded tensors, and their collation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jtrans.data.prepared import IGNORE, IdStore, ParallelIds
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
    indices: Tensor  # the positions of the pairs in their split, [B]
    # of the source by kind ("pos", "ner"), where the corpus has them, [B, S] each; IGNORE for none
    labels: dict[str, Tensor] = field(default_factory=dict)

    @property
    def target_tokens(self) -> int:
        """Count the real target tokens, EOS counted."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on `device`."""

        def moved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: t.to(device, non_blocking=True) for name, t in tensors.items()}

        tensors = {name: value for name, value in vars(self).items() if name != "labels"}
        return Batch(**moved(tensors), labels=moved(self.labels))


def padded(
    sentences: Sequence[Ids], device: torch.device | None = None, *, fill: int = PAD
) -> tuple[Tensor, Tensor]:
    """Return ids, filled up on the right, and the mask of real ones, [B, S] each."""
    lengths = np.array([len(sentence) for sentence in sentences])
    mask = np.arange(lengths.max()) < lengths[:, None]  # [B, S]
    ids = np.full(mask.shape, fill, dtype=np.int64)
    ids[mask] = np.concatenate(sentences)
    return torch.from_numpy(ids).to(device=device), torch.from_numpy(mask).to(device=device)


def collate(pairs: ParallelIds, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
    """Return the batch of the pairs at `indices`, in that order, padded on the right."""
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
        {kind: _pick(store, indices, fill=IGNORE)[0] for kind, store in pairs.labels.items()},
    )


def _pick(
    store: IdStore, indices: Sequence[int] | NDArray[np.int64], *, fill: int = PAD
) -> tuple[Tensor, Tensor]:
    return padded([store[int(index)] for index in indices], fill=fill)
