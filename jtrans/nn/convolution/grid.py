"""A convolution over the joint grid [B, T, S, C] that sees no later target position.

The rows of the kernel run along the target, its columns along the source. Only the centre row and
those before it take part, with all columns (docs/systems.md 9.2).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.cpu.convolution import depth_wise


class GridRows:
    """The last k//2 rows that a convolution has read, [N, k//2, S, C]: its state in decoding."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: Tensor | None = None

    def append(self, row: Tensor) -> Tensor:
        """Return the rows held and a new one, [N, 1, S, C] -> [N, k//2 + 1, S, C].

        Rows before the first position are zero, like the padding of a convolution.
        """
        if self._held is None:
            N, _, S, C = row.shape
            self._held = row.new_zeros(N, self.count, S, C)
        rows = torch.cat([self._held, row], dim=1)
        self._held = rows[:, 1:]
        return rows

    def select(self, rows: Tensor) -> GridRows:
        """Return the rows of the hypotheses `rows`, [N']."""
        chosen = GridRows(self.count)
        chosen._held = None if self._held is None else self._held.index_select(0, rows)
        return chosen


class GridConvolution(nn.Module):
    """A masked k x k convolution along target and source.

    `weight` has the full size, as the published parameter counts include it. The taps on later
    target positions are zero and remain so: the forward pass does not read them, so they get no
    gradient, and they are cleared when weights are loaded.

    Args:
        inputs: channels in.
        outputs: channels out.
        kernel: k, odd.
        groups: number of channel groups; with `inputs` groups the convolution is depth-wise.
        bias: whether a bias is added.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, groups: int = 1, bias: bool
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(outputs, inputs // groups, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        taps = (kernel // 2 + 1) * kernel * inputs // groups  # inputs of one output
        nn.init.normal_(self.weight, std=taps**-0.5)
        _clear_later_taps(self)
        self.register_load_state_dict_post_hook(_clear_later_taps)  # type: ignore[no-untyped-call]

    @property
    def reach(self) -> int:
        """The number of earlier target positions, and of source positions on each side."""
        return self.kernel // 2

    def forward(self, x: Tensor, rows: GridRows | None = None) -> Tensor:
        """Convolve a grid, zero beyond its edges.

        Args:
            x: [B, T, S, C_in], zero at padding; with `rows` the next row, [N, 1, S, C_in].
            rows: the rows before it, to which `x` is appended.

        Returns:
            [B, T, S, C_out], with `rows` [N, 1, S, C_out].
        """
        reach = self.reach
        weight = self.weight[:, :, : reach + 1]
        is_on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()
        is_depth_wise = self.groups == len(self.weight) and self.weight.shape[1] == 1
        if rows is None and is_on_cpu and is_depth_wise and torch.is_grad_enabled():
            return depth_wise(x, weight, self.bias)
        x = F.pad(x, (0, 0, 0, 0, reach, 0)) if rows is None else rows.append(x)
        y = F.conv2d(
            x.permute(0, 3, 1, 2), weight, self.bias, padding=(0, reach), groups=self.groups
        )
        return y.permute(0, 2, 3, 1)

    def extra_repr(self) -> str:
        """Describe the size of the kernel and the groups."""
        return f"kernel={self.kernel}, groups={self.groups}"


def _clear_later_taps(convolution: GridConvolution, _: Any = None) -> None:
    with torch.no_grad():
        convolution.weight[:, :, convolution.kernel // 2 + 1 :].zero_()
