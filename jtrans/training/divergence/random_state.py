"""The state of the random generators that dropout draws from, to repeat an update."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class RandomState:
    """The state of all random generators; reading it does not wait for a GPU."""

    device: torch.device
    cpu: Tensor
    device_state: Tensor | None  # None for a CPU
    python: Any

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """Return the present state."""
        module = random_module(device)
        device_state = None if module is None else module.get_rng_state(device)
        return cls(device, torch.get_rng_state(), device_state, random.getstate())

    def restore(self) -> None:
        """Make all generators continue from this state."""
        torch.set_rng_state(self.cpu)
        random.setstate(self.python)
        if (module := random_module(self.device)) is not None:
            module.set_rng_state(self.device_state, self.device)


def random_module(device: torch.device) -> ModuleType | None:
    """Return the module with the random state of an accelerator, None for a CPU."""
    return {"cuda": torch.cuda, "mps": torch.mps}.get(device.type)
