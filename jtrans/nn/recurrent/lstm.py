"""The layer-normalised LSTM (docs/systems.md 7.2), forward or in both directions.

Sequences are time-major here, [T, B, E]: a step is then contiguous in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.recurrent.gates import activate, advance, normalise
from jtrans.nn.recurrent.sequence import add_products, input_products, lstm_operator


class DirectionWeights(nn.Module):
    """The matrices of D linear maps, [D, I, O], one for each direction.

    Args:
        directions: D.
        width_in: I.
        width_out: O.
        initial: the matrices are drawn uniformly from -initial to initial.
    """

    def __init__(self, directions: int, width_in: int, width_out: int, initial: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(directions, width_in, width_out))
        nn.init.uniform_(self.weight, -initial, initial)


class NormedLstm(nn.Module):
    """An LSTM whose gates are layer-normalised, per gate, after the sum of input and state.

    Args:
        input_width: I, features of the input.
        width: N, features of the state.
        initial: the matrices are drawn uniformly from -initial to initial.
        directions: D: 1, or 2 for a forward and a backward LSTM.
    """

    def __init__(
        self, input_width: int, width: int, *, initial: float, directions: int = 1
    ) -> None:
        super().__init__()
        self.input_width = input_width
        self.width = width
        self.directions = directions
        # recompute the gates in the backward pass; set by `layer.set_recompute`
        self.saves_memory = False
        self.input = DirectionWeights(directions, input_width, 4 * width, initial)
        self.state = DirectionWeights(directions, width, 4 * width, initial)
        self.gain = nn.Parameter(torch.ones(directions * 4 * width))  # s, of u, i, f, o
        self.shift = nn.Parameter(torch.zeros(directions * 4 * width))  # b

    def forward(self, x: Tensor, x_reversed: Tensor | None = None) -> Tensor:
        """Read whole sequences from their first step, beginning with states of 0.

        Args:
            x: [T, B, I].
            x_reversed: the input of the second direction, [T, B, I].

        Returns:
            The states of each direction after each step, [T, B, D, N], float32 at least.
        """
        dtype = product_dtype(x)
        state: Tensor = lstm_operator(
            x.to(dtype),
            None if x_reversed is None else x_reversed.to(dtype),
            self.input.weight.to(dtype),
            self.state.weight.to(dtype),
            *self.affine(),
            not self.saves_memory,
        )[0]
        return state

    @torch.no_grad()
    def step(self, x: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Read one more step in one direction, without a gradient.

        Args:
            x: [n, I].
            state: h of the step before, [n, N].
            cell: c of the step before, [n, N].

        Returns:
            The next state and cell, [n, N] each.
        """
        dtype = product_dtype(x)
        z = input_products([x.to(dtype)[None]], self.input.weight.to(dtype))[0]  # [n, 1, 4, N]
        add_products(z.flatten(-2), state[:, None], self.state.weight.to(dtype))
        normed, _ = normalise(z)
        gates = torch.empty_like(z)
        activate(normed, *self.affine(), gates)
        next_state, next_cell = torch.empty_like(state), torch.empty_like(cell)
        advance(gates[:, 0], cell, next_cell, next_state)
        return next_state, next_cell

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return gain and shift of the norms, [D, 4, N] each."""
        shape = (self.directions, 4, self.width)
        return self.gain.view(shape), self.shift.view(shape)

    def extra_repr(self) -> str:
        """Describe the sizes."""
        return f"{self.input_width}, {self.width}, directions={self.directions}"


class Reversal(NamedTuple):
    """The indices by which sentences padded on the right are read backwards, of [T * B] rows."""

    rows: Tensor  # at each step of n tokens the row of token n-1, n-2, ..., 0, then of padding
    copied: Tensor  # at each step its own row, in padding the row of the last token
    mask: Tensor  # 1 on tokens, 0 on padding, [T, B, 1]

    @classmethod
    def of(cls, mask: Tensor) -> Reversal:
        """Return the reversal of a batch.

        Args:
            mask: True on real tokens, [T, B].
        """
        T, B = mask.shape
        step = torch.arange(T, device=mask.device)[:, None]  # [T, 1]
        sentence = torch.arange(B, device=mask.device)  # [B]
        last = mask.sum(0) - 1  # [B]
        reversed_step = torch.where(step <= last, last - step, step)  # [T, B]
        copied_step = torch.minimum(step, last)
        rows, copied = ((each * B + sentence).flatten() for each in (reversed_step, copied_step))
        return cls(rows, copied, mask.unsqueeze(-1))


class BidirectionalLstm(NormedLstm):
    """A forward and a backward LSTM, side by side, over sentences padded on the right.

    As padding copies the state before (docs/systems.md 7.3), neither direction depends on it. The
    backward one is computed on reversed sentences, where padding comes last, too.

    Args:
        input_width: I.
        width: N of each direction.
        initial: as in `NormedLstm`.
    """

    def __init__(self, input_width: int, width: int, *, initial: float) -> None:
        super().__init__(input_width, width, directions=2, initial=initial)

    def read(self, x: Tensor, reversal: Reversal) -> Tensor:
        """Return the states of both directions at each position, [T, B, I] -> [T, B, 2N]."""
        states = self(x, x.flatten(0, 1).index_select(0, reversal.rows).view(x.shape))
        forward, backward = states.flatten(0, 1).unbind(1)  # [T*B, N]
        forward = forward.index_select(0, reversal.copied).view(*x.shape[:2], -1)
        backward = backward.index_select(0, reversal.rows).view(*x.shape[:2], -1)
        return torch.cat([forward, backward * reversal.mask], dim=-1)
