"""The random generators that dropout draws from, to compute an update once more."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class RandomState:
    """The state of all random generators; reading it does not wait for a GPU."""

    device: torch.device
    cpu: Tensor
    device_state: Tensor | None  # of the device
    python: Any

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """Return the present state."""
        device_state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        device_state = torch.mps.get_rng_state() if device.type == "mps" else device_state
        return cls(device, torch.get_rng_state(), device_state, random.getstate())

    def restore(self) -> None:
        """Make all generators continue from this state."""
        torch.set_rng_state(self.cpu)
        random.setstate(self.python)
        if self.device_state is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(self.device_state, self.device)
        elif self.device_state is not None:
            torch.mps.set_rng_state(self.device_state)
