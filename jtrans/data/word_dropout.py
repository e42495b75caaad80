"""Word dropout: tokens that are read as ``<unk>`` (docs/systems.md 0.6)."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.text.vocabulary import EOS, UNK


def drop_words(batch: Batch, rate: float) -> Batch:
    """Replace each token that the model reads by ``<unk>`` with probability `rate`.

    The tokens to predict stay, and so does ``</s>``: the length of the source remains visible.
    """

    def dropped(ids: Tensor, mask: Tensor) -> Tensor:
        is_dropped = (torch.rand(ids.shape, device=ids.device) < rate) & mask & (ids != EOS)
        return ids.masked_fill(is_dropped, UNK)

    return dataclasses.replace(
        batch,
        source=dropped(batch.source, batch.source_mask),
        target_in=dropped(batch.target_in, batch.target_mask),
    )
