"""The FLOPs of our operators, which are opaque to torch's counter.

They are not beside the operators because torch's counter imports Triton, which would slow the start
of every translation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import jtrans.nn.gpu.operator  # noqa: F401  registers operators, as the next import does
from jtrans.nn.recurrent.attentive import Inputs


def _lstm(x: Any, x_reversed: Any, input_weight: Any, state_weight: Any, *_: Any, **__: Any) -> int:
    T, B, _ = x
    weights = (input_weight, state_weight)
    return sum(2 * T * B * D * width_in * width_out for D, width_in, width_out in weights)


def _lstm_backward(d_state: Any, *shapes: Any, **__: Any) -> int:
    return 2 * _lstm(*shapes)


def _attentive(*shapes: Any, **_: Any) -> int:
    """Count the products with the weights, the scores and the contexts."""
    inputs = Inputs(*shapes)
    T, B, _ = inputs.x
    weights = (inputs.input_weight, inputs.joint_weight, inputs.query_weight)
    products: int = sum(2 * T * B * weight[1] * weight[2] for weight in weights)
    _, H, S, D = inputs.keys
    attention: int = 2 * 2 * (T + 1) * B * H * S * D
    return products + attention


def _attentive_backward(d_joint: Any, *shapes: Any, **_: Any) -> int:
    return 2 * _attentive(*shapes[: len(Inputs._fields) - 1], False)


def _short_axis(qkv: Any, *_: Any, **__: Any) -> int:
    """Count the scores and the weighted sums, both L x L x D for each line and head."""
    _, B, A, H, L, D = qkv
    return 2 * 2 * int(B * A * H) * int(L * L * D)


def _short_axis_backward(gradient: Any, qkv: Any, *_: Any, **__: Any) -> int:
    return 5 * _short_axis(qkv) // 2  # the scores once more, and the gradients of four factors


# For each operator, the function from the shapes of its arguments to its FLOPs.
FORMULAS: dict[Any, Callable[..., int]] = {
    torch.ops.jtrans.lstm: _lstm,
    torch.ops.jtrans.lstm_backward: _lstm_backward,
    torch.ops.jtrans.attentive_lstm: _attentive,
    torch.ops.jtrans.attentive_lstm_backward: _attentive_backward,
    torch.ops.jtrans.short_axis_attention: _short_axis,
    torch.ops.jtrans.short_axis_attention_backward: _short_axis_backward,
}
