"""The layer-normalised LSTM over whole sequences as a torch operator, with its backward pass.

The input projections of all steps are one product; each step adds the product with the previous
state, and the rest of it is elementwise (`gates.py`). The backward pass keeps the gradients of z of
all steps and computes the gradient of each weight in one product. Two directions run side by side.

The steps are hidden in an operator, so that compilers see one node each way whatever the length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jtrans.nn.recurrent.gates import GateGradients, activate, advance, normalise, step_backward

_SCHEMA = (
    "(Tensor x, Tensor? x_reversed, Tensor input_weight, Tensor state_weight, "
    "Tensor gain, Tensor shift, bool keeps_gates)"
)
_BACKWARD_SCHEMA = (
    "(Tensor d_state, Tensor x, Tensor? x_reversed, Tensor input_weight, Tensor state_weight, "
    "Tensor gain, Tensor shift, Tensor state, Tensor cell, Tensor normed, Tensor scale, "
    "Tensor gates)"
)


def input_products(inputs: list[Tensor], weights: Tensor) -> Tensor:
    """Return the products of all steps with the input weights, float32 at least.

    Args:
        inputs: the input of each direction, [T, B, I].
        weights: [D, I, 4N].

    Returns:
        [T, B, D, 4, N].
    """
    T, B, _ = inputs[0].shape
    D, _, width = weights.shape
    dtype = torch.promote_types(weights.dtype, torch.float32)
    z = weights.new_empty(T, B, D, 4, width // 4, dtype=dtype)
    for d, x in enumerate(inputs):
        out = z.view(T * B, D, width)[:, d]
        if dtype == weights.dtype:
            torch.mm(x.reshape(T * B, -1), weights[d], out=out)
        else:
            out.copy_(x.reshape(T * B, -1) @ weights[d])
    return z


def add_products(out: Tensor, x: Tensor, weights: Tensor) -> None:
    """Add ``x weights`` to `out` for each direction.

    Args:
        out: [B, D, K].
        x: [B, D, I].
        weights: [D, I, K], perhaps of lower precision.
    """
    is_exact = out.dtype == weights.dtype
    factors = x if is_exact else x.to(weights.dtype)
    for total, factor, weight in zip(out.unbind(1), factors.unbind(1), weights, strict=True):
        if is_exact:
            total.addmm_(factor, weight)
        else:
            total.add_(factor @ weight)


def weight_gradients(x: list[Tensor], gradient: Tensor, like: Tensor) -> Tensor:
    """Return the gradient of weights, [D, I, K], given inputs and the gradient of the products.

    Args:
        x: the inputs of each direction as rows, [n, I].
        gradient: gradient of the products, [n, D, K].
        like: the weights.
    """
    out = torch.empty_like(like)
    for d, rows in enumerate(x):
        torch.mm(rows.to(like.dtype).t(), gradient[:, d].to(like.dtype), out=out[d])
    return out


def _forward(
    x: Tensor,
    x_reversed: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    gain: Tensor,
    shift: Tensor,
    keeps_gates: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    with torch.autocast(x.device.type, enabled=False):
        inputs = [x] if x_reversed is None else [x, x_reversed]
        z = input_products(inputs, input_weight)
        state, cell, normed, scale, gates = _buffers(x, state_weight, keeps_gates)
        room = gates if keeps_gates else torch.empty_like(z[:1]).expand_as(z)
        before: tuple[Tensor, Tensor] | None = None
        for *outs, z_t, gates_t in zip(state, cell, normed, scale, z, room, strict=True):
            state_t, cell_t, normed_t, scale_t = outs
            if before is not None:
                add_products(z_t.flatten(-2), before[0], state_weight)
            for out, value in zip((normed_t, scale_t), normalise(z_t), strict=True):
                out.copy_(value)
            activate(normed_t, gain, shift, gates_t)
            advance(gates_t, before and before[1], cell_t, state_t)
            before = state_t, cell_t
        return state, cell, normed, scale, gates


def _buffers(
    x: Tensor, state_weight: Tensor, keeps_gates: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return room for state, cell, normed z, scale and gates of all steps, [T, B, D, ...]."""
    T, B, _ = x.shape
    D, N, _ = state_weight.shape
    dtype = torch.promote_types(state_weight.dtype, torch.float32)
    lines = (T, B, D)
    return (
        x.new_empty(*lines, N, dtype=dtype),
        x.new_empty(*lines, N, dtype=dtype),
        x.new_empty(*lines, 4, N, dtype=dtype),
        x.new_empty(*lines, 4, 1, dtype=dtype),
        x.new_empty(*(lines if keeps_gates else (0, B, D)), 4, N, dtype=dtype),
    )


def _backward(
    d_state: Tensor,
    x: Tensor,
    x_reversed: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    gain: Tensor,
    shift: Tensor,
    state: Tensor,
    cell: Tensor,
    normed: Tensor,
    scale: Tensor,
    gates: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    with torch.autocast(x.device.type, enabled=False):
        T, B, D, _, N = normed.shape
        d_z = torch.empty_like(normed)
        d_cell = torch.zeros_like(cell[0])
        sums = GateGradients(torch.zeros_like(normed[0]), torch.zeros_like(normed[0]))
        transposed = state_weight.transpose(1, 2)
        for t in reversed(range(T)):
            d_state_t = d_state[t].contiguous()
            if t < T - 1:
                d_state_t = d_state_t.clone()
                add_products(d_state_t, d_z[t + 1].flatten(-2), transposed)
            if len(gates):
                gates_t = gates[t]
            else:
                gates_t = torch.empty_like(normed[t])
                activate(normed[t], gain, shift, gates_t)
            before = cell[t - 1] if t else None
            d_z[t] = step_backward(
                d_state_t, d_cell, normed[t], scale[t], gates_t, before, cell[t], gain, sums
            )
        rows = d_z.view(T * B, D, 4 * N)
        d_state_weight = weight_gradients(
            list(state[:-1].flatten(0, 1).unbind(1)), rows[B:], state_weight
        )
        inputs = [x] if x_reversed is None else [x, x_reversed]
        flat = [each.reshape(T * B, -1) for each in inputs]
        d_input_weight = weight_gradients(flat, rows, input_weight)
        d_inputs = [
            (rows[:, d].to(input_weight.dtype) @ input_weight[d].t()).view_as(each)
            for d, each in enumerate(inputs)
        ]
        if x_reversed is None:
            d_inputs.append(x.new_empty(0))
        d_x, d_reversed = d_inputs
        return d_x, d_reversed, d_input_weight, d_state_weight, sums.gain.sum(0), sums.shift.sum(0)


lstm_operator = torch.library.custom_op(
    "jtrans::lstm",
    _forward,
    mutates_args=(),
    schema=f"{_SCHEMA} -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
backward_operator = torch.library.custom_op(
    "jtrans::lstm_backward",
    _backward,
    mutates_args=(),
    schema=f"{_BACKWARD_SCHEMA} -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@lstm_operator.register_fake
def _(
    x: Tensor,
    x_reversed: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    gain: Tensor,
    shift: Tensor,
    keeps_gates: bool,
) -> tuple[Tensor, ...]:
    return _buffers(x, state_weight, keeps_gates)


@backward_operator.register_fake
def _(
    d_state: Tensor,
    x: Tensor,
    x_reversed: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    gain: Tensor,
    shift: Tensor,
    *_: Tensor,
) -> tuple[Tensor, ...]:
    d_reversed = x.new_empty(0) if x_reversed is None else torch.empty_like(x_reversed)
    weights = (torch.empty_like(w) for w in (input_weight, state_weight, gain, shift))
    return torch.empty_like(x), d_reversed, *weights


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, _ = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, d_state: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    d_x, d_reversed, *weights = backward_operator(d_state, *ctx.saved_tensors)
    return d_x, d_reversed if len(d_reversed) else None, *weights, None


lstm_operator.register_autograd(_differentiate, setup_context=_save)
