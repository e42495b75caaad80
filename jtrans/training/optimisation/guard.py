"""The gradient guard: updates whose gradient is abnormal are dropped (docs/systems.md 7.8).

Chen et al. 2018 call it adaptive gradient clipping. A norm is abnormal if it is not finite, or if
ln(1 + norm) is more than four standard deviations above its moving mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

DECAY = 0.995  # of the moving averages
DEVIATIONS = 4.0  # above the mean
TRUSTED = 0.75  # the averages are trusted from this weight on: after 277 updates
SMALLEST_NORM, SMALLEST_VARIANCE = 1e-2, 1e-6
NO_AVERAGES = [0.0, 0.0, 0.0]  # before the first update


class GradientGuard:
    """Judges the norm of every gradient by those before it, reading nothing from the device."""

    def __init__(self, device: torch.device) -> None:
        # moving averages of r and r^2 with r = ln(1 + norm), and their weight: M, Q, w
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self._averages = torch.tensor(NO_AVERAGES, device=device, dtype=dtype)

    @property
    def averages(self) -> list[float]:
        """The moving averages, for a checkpoint; reading them makes a GPU wait."""
        return [float(value) for value in self._averages.tolist()]

    @averages.setter
    def averages(self, values: list[float]) -> None:
        self._averages.copy_(torch.tensor(values, dtype=self._averages.dtype))

    def judge(self, norm: Tensor) -> Tensor:
        """Return whether to drop an update, [] bool, and count its gradient's norm, []."""
        averages = self._averages
        weight = averages[2]
        mean, square = averages[:2] / weight.clamp(min=1e-6)
        deviation = (square - mean**2).clamp(min=SMALLEST_VARIANCE).sqrt()
        cap = mean + DEVIATIONS * deviation
        r = torch.log1p(norm.detach().to(averages.dtype).clamp(min=SMALLEST_NORM))
        is_finite = norm.isfinite()
        dropped: Tensor = ~is_finite | ((r > cap) & (weight > TRUSTED))
        r = torch.minimum(r, cap)  # a dropped norm counts, too: norms may have grown for good
        moved = averages.lerp(torch.stack([r, r**2, torch.ones_like(r)]), 1.0 - DECAY)
        self._averages = torch.where(is_finite, moved, averages)
        return dropped
