"""One step of the layer-normalised LSTM cell without its products (docs/systems.md 7.2).

    a_k = s_k * (z_k - mean(z_k)) / sqrt(var(z_k) + 1e-8) + b_k        for the gates k = u, i, f, o
    c_t = clip(sigmoid(a_f) c_{t-1} + sigmoid(a_i) tanh(a_u), -10, 10)
    h_t = sigmoid(a_o) c_t

Written with as few torch operations as possible, each on all gates, directions and sentences: at
usual sizes their operands stay in a CPU's cache. D directions are computed side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-8  # added to variances
LIMIT = 10.0  # largest absolute value of the cell state


@dataclass
class GateGradients:
    """The gradients of gain and shift of each sentence, summed over steps."""

    gain: Tensor  # [B, D, 4, N]
    shift: Tensor  # [B, D, 4, N]


def normalise(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return each gate normalised over its features, [B, D, 4, N], and 1 / deviation, [..., 1]."""
    normed, _, scale = torch.native_layer_norm(z, z.shape[-1:], None, None, EPSILON)
    return normed, scale


def activate(normed: Tensor, gain: Tensor, shift: Tensor, gates: Tensor) -> None:
    """Write tanh(a_u), sigmoid(a_i), sigmoid(a_f), sigmoid(a_o) to `gates`, [B, D, 4, N]."""
    torch.addcmul(shift, normed, gain, out=gates)
    gates[..., :1, :].tanh_()
    gates[..., 1:, :].sigmoid_()


def advance(gates: Tensor, before: Tensor | None, cell: Tensor, state: Tensor) -> None:
    """Write the next cell and state, [B, D, N], given the gates and the cell before (None: 0)."""
    candidate, input_gate, forget_gate, output_gate = gates.unbind(-2)
    torch.mul(input_gate, candidate, out=cell)
    if before is not None:
        cell.addcmul_(forget_gate, before)
    cell.clamp_(-LIMIT, LIMIT)
    torch.mul(output_gate, cell, out=state)


def step_backward(
    d_state: Tensor,
    d_cell: Tensor,
    normed: Tensor,
    scale: Tensor,
    gates: Tensor,
    before: Tensor | None,
    cell: Tensor,
    gain: Tensor,
    sums: GateGradients,
) -> Tensor:
    """Return the gradient of z, [B, D, 4, N].

    Args:
        d_state: the gradient of the state of this step, [B, D, N].
        d_cell: the gradient of its cell from later steps, [B, D, N]; overwritten with the gradient
            of the cell before.
        normed: the normalised gates, [B, D, 4, N].
        scale: 1 / deviation, [B, D, 4, 1].
        gates: the activated gates, [B, D, 4, N].
        before: the cell before, [B, D, N]; None: 0.
        cell: the cell of this step, [B, D, N].
        gain: s, [D, 4, N].
        sums: the gradients of gain and shift are added to these.
    """
    candidate, input_gate, forget_gate, output_gate = gates.unbind(-2)
    d_gates = torch.empty_like(gates)
    d_candidate, d_input, d_forget, d_output = d_gates.unbind(-2)
    torch.mul(d_state, cell, out=d_output)
    d_cell.addcmul_(d_state, output_gate)
    d_cell.mul_(cell.abs() < LIMIT)  # clipped: no gradient
    torch.mul(d_cell, input_gate, out=d_candidate)
    torch.mul(d_cell, candidate, out=d_input)
    if before is None:
        d_forget.zero_()
    else:
        torch.mul(d_cell, before, out=d_forget)
    d_cell.mul_(forget_gate)
    inner, outer = d_gates[..., :1, :], d_gates[..., 1:, :]
    torch.ops.aten.tanh_backward.grad_input(inner, gates[..., :1, :], grad_input=inner)
    torch.ops.aten.sigmoid_backward.grad_input(outer, gates[..., 1:, :], grad_input=outer)
    sums.shift.add_(d_gates)
    sums.gain.addcmul_(d_gates, normed)
    d_normed = d_gates.mul_(gain)
    return layer_norm_backward(d_normed, normed, scale)


def layer_norm_backward(d_normed: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Return the gradient of z, [..., N]: scale (g - mean(g) - y mean(g y)), y the normalised z."""
    shape = normed.shape[-1:]
    zeros, ones = torch.zeros_like(scale), torch.ones_like(scale)
    mask = [True, False, False]
    d_z: Tensor = torch.ops.aten.native_layer_norm_backward(
        d_normed, normed, shape, zeros, ones, None, None, mask
    )[0]
    return d_z.mul_(scale)
