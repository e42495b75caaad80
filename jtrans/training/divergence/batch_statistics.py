"""Moving statistics of batch normalisation, restored after forward passes that must not count."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchStatistics:
    """The moving statistics of a model: its saved buffers. Most systems have none."""

    def __init__(self, model: nn.Module) -> None:
        saved = model.state_dict().keys()
        self._buffers = [buffer for name, buffer in model.named_buffers() if name in saved]
        self._kept: list[Tensor] = []

    def keep(self) -> None:
        """Note the statistics before an update or a micro-batch."""
        self._kept = [buffer.clone() for buffer in self._buffers]

    def restore(self, dropped: Tensor) -> None:
        """Restore them if the update is `dropped`, [] bool, without waiting for a GPU."""
        for buffer, kept in zip(self._buffers, self._kept, strict=True):
            buffer.copy_(torch.where(dropped, kept, buffer))
