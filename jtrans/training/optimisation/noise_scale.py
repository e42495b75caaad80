"""The simple noise scale of the gradient (McCandlish et al. 2018, section 2.2 and appendix A.1).

B_simple = tr(S) / |G|^2, where G is the true gradient and S the covariance of the gradient of one
token: roughly the size of an update in tokens below which larger updates are nearly as good as more
updates, and above which more tokens are mostly wasted. An update of N tokens adds up K gradients
c_i = (n_i / N) g_i of micro-batches of n_i tokens. With

    A = sum_i |c_i|^2 / (n_i / N),   E[A] = |G|^2 + K tr(S) / N
    B = |sum_i c_i|^2,               E[B] = |G|^2 +   tr(S) / N

both tr(S) = N (A - B) / (K - 1) and |G|^2 = (K B - A) / (K - 1) are unbiased; for equal
micro-batches they are the paper's. Their ratio is biased for few updates, so both are averaged
first, as in the paper: it takes some hundred updates to settle.

Biases that averaging does not remove: tokens of a sentence are not independent, and a micro-batch
holds sentences of similar length, so that its gradient differs from the whole one by more than
chance, which makes the result too high. Dropout counts as noise. If the loss is a mean over
sentences, the unit is sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

EVERY = 10  # updates; measuring costs a pass over the gradient for every micro-batch
DECAY = 0.98  # of the averages, per measured update


class NoiseScale:
    """Measures every tenth update that has several micro-batches."""

    def __init__(self) -> None:
        # of tr(S) and |G|^2, saved with each checkpoint; starting at 0 cancels out in their ratio
        self.averages = [0.0, 0.0]
        self._is_measuring, self._size = False, 0
        self._sums: list[Tensor] = []  # |c_i|^2 / (n_i / N) of each micro-batch of this rank
        self._update: Tensor | None = None  # A, K and N
        self._unread: list[Tensor] = []  # A, K, N and B of measured updates, [4], on the device

    def restore(self, averages: list[float]) -> None:
        """Continue with the averages of a checkpoint, which are updated in place."""
        self.averages = averages
        self._unread.clear()

    def begin(self, update: int, size: int) -> None:
        """Begin the update after `update` others; `size` is N, or 0 if it cannot be measured."""
        self._is_measuring, self._size = bool(size) and update % EVERY == 0, size
        self._sums.clear()

    def add(self, parameters: Iterable[nn.Parameter], size: int) -> None:
        """Measure the gradient of one micro-batch.

        Args:
            parameters: with the gradient of the micro-batch alone.
            size: n_i.
        """
        if self._is_measuring:
            norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
            self._sums.append(norm.square() * (self._size / size))

    def joined(self, losses: Tensor) -> Tensor:
        """Return the losses of this rank, [n], followed by A and K, [n + 2] if it is measuring."""
        if not self._is_measuring:
            return losses
        sums = [each.to(losses.dtype) for each in self._sums]
        total = torch.stack([losses.new_zeros(()), *sums]).sum()
        return torch.cat([losses, torch.stack([total, total.new_full((), len(self._sums))])])

    def parted(self, sums: Tensor) -> Tensor:
        """Return the losses, [n], from the sums over all ranks of what `joined` returned."""
        if not self._is_measuring:
            return sums
        self._update = torch.cat([sums[-2:], sums.new_full((1,), self._size)])
        return sums[:-2]

    def end(self, norm: Tensor) -> None:
        """End an update whose gradient has this norm, []."""
        if self._update is not None:
            self._unread.append(torch.cat([self._update, norm.square()[None]]))
        self._is_measuring, self._update = False, None

    def read(self) -> None:
        """Add what was measured to the averages."""
        if not self._unread:
            return
        rows = torch.stack(self._unread).double().tolist()
        self._unread.clear()
        for total, count, size, whole in rows:
            if count < 2 or not math.isfinite(total + whole):
                continue
            noise = size * (total - whole) / (count - 1)
            signal = (count * whole - total) / (count - 1)
            for place, value in enumerate((noise, signal)):
                self.averages[place] = DECAY * self.averages[place] + (1.0 - DECAY) * value

    def estimate(self) -> float | None:
        """Return B_simple in tokens, or sentences; None if an average is not above 0 (yet)."""
        self.read()
        noise, signal = self.averages
        return noise / signal if noise > 0.0 and signal > 0.0 else None
