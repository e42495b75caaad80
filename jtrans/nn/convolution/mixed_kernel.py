"""The convolution of the mixed block: depth-wise, dilated, with normalised kernels.

See docs/systems.md 6.2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.softmax import softmax

# Up to this length the convolution is a product with a banded matrix [L, L] for each channel, whose
# gradient takes a quarter of the time of torch's depth-wise convolution on a CPU.
LONGEST_MATRIX = 256


class LocalConvolution(nn.Module):
    """Convolve every channel with its own kernel, whose K weights are positive and sum to 1.

        LocalConv[t, c] = sum_{k=0..K-1} softmax(w[c])[k] x[t - (K-1-k) r, c]

    Positions outside the sentence count as 0. DropConnect drops weights of the normalised kernel.

    Args:
        channels: C.
        kernel: kernel size, K.
        dilation: the distance between taps, r.
        dropout: DropConnect, dropout of the kernel's weights.
        centred: K is odd, and the kernel is centred at t: its last tap is at t + (K-1)/2 r.
    """

    def __init__(
        self,
        channels: int,
        kernel: int,
        dilation: int,
        dropout: SharedDropout,
        *,
        centred: bool,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, kernel))
        self.dilation = dilation
        self.dropout = dropout
        self.ahead = (kernel - 1) // 2 * dilation if centred else 0  # reach to later positions
        nn.init.xavier_uniform_(self.weight)

    @property
    def span(self) -> int:
        """The distance between the first and the last tap, (K-1) r."""
        return (self.weight.shape[1] - 1) * self.dilation

    def taps(self) -> Tensor:
        """Return the normalised kernels, the tap of the latest position last, [C, K]."""
        return self.dropout(softmax(self.weight, -1))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """Convolve along sentences, [B, L, C] -> [B, L, C]."""
        if x.shape[1] > LONGEST_MATRIX:
            return self._convolve(x)
        matrix = self._matrix(x.shape[1])  # [C, L, L]
        return torch.bmm(matrix.to(x.dtype), x.permute(2, 1, 0)).permute(2, 1, 0)

    def step(self, past: Tensor) -> Tensor:
        """Convolve at the last position only.

        Args:
            past: the last positions up to this one, at most span + 1, [..., L, C].

        Returns:
            [..., C].
        """
        L, taps = past.shape[-2], self.taps().t()  # [K, C]
        read = past[..., (L - 1) % self.dilation :: self.dilation, :]
        return (read * taps[-read.shape[-2] :]).sum(-2).to(past.dtype)

    def _matrix(self, length: int) -> Tensor:
        """Return the matrices that map a sentence to its convolution, [C, L, L]."""
        taps, r = self.taps(), self.dilation
        C, K = taps.shape
        position = torch.arange(length, device=taps.device)
        distance = position[:, None] - position + self.ahead  # t - s, [L, L]
        tap = K - 1 - torch.div(distance, r, rounding_mode="floor")
        is_read = (distance % r == 0) & (tap >= 0) & (tap < K)
        tap = torch.where(is_read, tap, K)  # the tap after the last one is 0
        return F.pad(taps, (0, 1)).index_select(1, tap.flatten()).view(C, length, length)

    def _convolve(self, x: Tensor) -> Tensor:
        """Compute `forward` by torch's convolution: no matrix, for long sentences."""
        taps = self.taps()
        padded = F.pad(x.transpose(1, 2), (self.span - self.ahead, self.ahead))  # [B, C, ...]
        kernels = taps[:, None].to(x.dtype)  # [C, 1, K]
        result = F.conv1d(padded, kernels, groups=len(taps), dilation=self.dilation)
        return result.transpose(1, 2)
