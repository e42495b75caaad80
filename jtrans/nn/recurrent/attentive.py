"""An LSTM that attends at every step and reads the context at the next, as a torch operator.

    state_t, cell_t = Cell([ e_t ; context_{t-1} ])          context_{-1} = Attention(0)
    context_t = Attention(state_t)

This is the first layer of RNMT+'s decoder (docs/systems.md 7.5), which must be computed step by
step. State and context lie side by side, so that each step has one product for the gates, one for
the query, and one pass over the source. The backward pass recomputes the tanh of the scores, which
is S times as large as the other tensors of a step, and computes the gradient of each weight in one
product after the last step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from jtrans.nn.recurrent.gates import GateGradients, activate, advance, normalise, step_backward
from jtrans.nn.recurrent.sequence import add_products, input_products, weight_gradients


class Inputs(NamedTuple):
    """The inputs of the operator; the factors of products may be of lower precision."""

    x: Tensor  # e, [T, B, I]
    values: Tensor  # K, [B, H, S, D]
    keys: Tensor  # K U, [B, H, S, D]
    bias: Tensor  # 0 or -inf, [B, S]
    mask: Tensor | None  # dropout mask of the attention weights, [T + 1, B, H, S]
    input_weight: Tensor  # weight of x, [1, I, 4N]
    joint_weight: Tensor  # weight of state and context, [1, 2N, 4N]
    gain: Tensor  # s, [1, 4, N]
    shift: Tensor  # b, [1, 4, N]
    query_weight: Tensor  # from a state to q R, [1, N, N]
    query_bias: Tensor  # [N]
    score: Tensor  # v, [D]
    keeps_gates: bool  # whether to keep the gates for the backward pass


class Outputs(NamedTuple):
    """The outputs of the operator: `joint` and `weights`, then tensors for the backward pass."""

    joint: Tensor  # [state ; context] before the first step and after each, [T + 1, B, 2N]
    weights: Tensor  # attention weights of the contexts in `joint`, [T + 1, B, H, S]
    queries: Tensor  # q R, [T + 1, B, N]
    cell: Tensor  # [T, B, 1, N]
    normed: Tensor  # [T, B, 1, 4, N]
    scale: Tensor  # [T, B, 1, 4, 1]
    gates: Tensor  # [T, B, 1, 4, N], or none


_INPUTS = (
    "Tensor x, Tensor values, Tensor keys, Tensor bias, Tensor? mask, Tensor input_weight, "
    "Tensor joint_weight, Tensor gain, Tensor shift, Tensor query_weight, Tensor query_bias, "
    "Tensor score, bool keeps_gates"
)
_OUTPUTS = ", ".join(f"Tensor {name}" for name in Outputs._fields)


def _buffers(inputs: Inputs) -> Outputs:
    T, B, _ = inputs.x.shape
    _, H, S, D = inputs.values.shape
    N = H * D
    lines = (T, B, 1)
    kept = lines if inputs.keeps_gates else (0, B, 1)

    def empty(*shape: int) -> Tensor:
        return inputs.values.new_empty(shape)

    return Outputs(
        joint=empty(T + 1, B, 2 * N),
        weights=empty(T + 1, B, H, S),
        queries=empty(T + 1, B, N),
        cell=empty(*lines, N),
        normed=empty(*lines, 4, N),
        scale=empty(*lines, 4, 1),
        gates=empty(*kept, 4, N),
    )


def _forward(*arguments: Any) -> Outputs:
    inputs = Inputs(*arguments)
    with torch.autocast(inputs.x.device.type, enabled=False):
        out = _buffers(inputs)
        z = input_products([inputs.x], inputs.input_weight)  # [T, B, 1, 4, N]
        N = z.shape[-1]
        buffer = torch.empty_like(inputs.keys)
        gates = out.gates if inputs.keeps_gates else torch.empty_like(z[:1]).expand_as(z)
        out.joint[0].zero_()
        _attend(inputs, out, 0, buffer)
        for t, z_t in enumerate(z):
            add_products(z_t.flatten(-2), out.joint[t][:, None], inputs.joint_weight)
            for kept, value in zip((out.normed[t], out.scale[t]), normalise(z_t), strict=True):
                kept.copy_(value)
            activate(out.normed[t], inputs.gain, inputs.shift, gates[t])
            state = out.joint[t + 1][:, None, :N]
            advance(gates[t], out.cell[t - 1] if t else None, out.cell[t], state)
            _attend(inputs, out, t + 1, buffer)
        return out


def _attend(inputs: Inputs, out: Outputs, t: int, buffer: Tensor) -> None:
    """Write query, weights and context of the state in ``out.joint[t]``, the context beside it."""
    B, H, S, D = inputs.keys.shape
    N = H * D
    query = out.queries[t]
    query.copy_(inputs.query_bias)  # broadcasts
    if t:  # the first query is 0
        add_products(query[:, None], out.joint[t][:, None, :N], inputs.query_weight)
    tanh = _tanh(inputs, query, buffer)
    scores = torch.mv(tanh.view(-1, D), inputs.score).view(B, H, S)
    scores += inputs.bias[:, None]
    weights = out.weights[t].copy_(torch.softmax(scores, -1))
    if inputs.mask is not None:
        weights = weights * inputs.mask[t]
    context = torch.bmm(weights.view(B * H, 1, S), inputs.values.view(B * H, S, D))
    out.joint[t][:, N:] = context.view(B, N)


def _tanh(inputs: Inputs, query: Tensor, buffer: Tensor) -> Tensor:
    """Return tanh(K U + q R), [B, H, S, D], in `buffer`."""
    B, H, _, D = inputs.keys.shape
    return torch.add(inputs.keys, query.view(B, H, 1, D), out=buffer).tanh_()


def _backward(d_joint: Tensor, *tensors: Any) -> tuple[Tensor, ...]:
    count = len(Inputs._fields) - 1
    inputs = Inputs(*[*tensors[:count], False])
    return _Backward(inputs, Outputs(*tensors[count:])).run(d_joint)


class _Backward:
    """The backward pass: the gradients that are summed over steps, and those of each step."""

    def __init__(self, inputs: Inputs, out: Outputs) -> None:
        self.inputs = inputs
        self.out = out
        self.d_queries = torch.empty_like(out.queries)
        self.d_contexts = torch.empty_like(out.queries)
        self.d_scores = torch.zeros_like(inputs.keys[..., 0])  # summed over steps, [B, H, S]
        self.squares = torch.zeros_like(inputs.keys)  # d_scores * tanh^2, summed over steps
        self.d_score = torch.zeros_like(inputs.keys[:, :, :1]).flatten(0, 1)  # [B * H, 1, D]
        self.buffer = torch.empty_like(inputs.keys)

    def run(self, d_joint: Tensor) -> tuple[Tensor, ...]:
        inputs, out = self.inputs, self.out
        with torch.autocast(inputs.x.device.type, enabled=False):
            T, B, _, _, N = out.normed.shape
            d_z = torch.empty_like(out.normed)
            d_cell = torch.zeros_like(out.cell[0])
            sums = GateGradients(torch.zeros_like(d_z[0]), torch.zeros_like(d_z[0]))
            joint_back = inputs.joint_weight.transpose(1, 2)
            query_back = inputs.query_weight.transpose(1, 2)
            for t in reversed(range(T + 1)):
                d_both = d_joint[t].clone()
                if t < T:
                    add_products(d_both[:, None], d_z[t].flatten(-2), joint_back)
                self._attend(t, d_both[:, N:])
                if not t:
                    break
                d_state = d_both[:, None, :N]
                add_products(d_state, self.d_queries[t][:, None], query_back)
                d_z[t - 1] = self._step(t - 1, d_state, d_cell, sums)
            return self._results(d_z.view(T * B, 1, 4 * N), sums)

    def _step(self, t: int, d_state: Tensor, d_cell: Tensor, sums: GateGradients) -> Tensor:
        inputs, out = self.inputs, self.out
        if len(out.gates):
            gates = out.gates[t]
        else:
            gates = torch.empty_like(out.normed[t])
            activate(out.normed[t], inputs.gain, inputs.shift, gates)
        before = out.cell[t - 1] if t else None
        step = (out.normed[t], out.scale[t], gates, before, out.cell[t])
        return step_backward(d_state, d_cell, *step, inputs.gain, sums)

    def _attend(self, t: int, d_context: Tensor) -> None:
        inputs, weights = self.inputs, self.out.weights[t]
        B, H, S, D = inputs.keys.shape
        self.d_contexts[t] = d_context
        d_mixed = self.d_contexts[t].view(B * H, 1, D)
        d_weights = torch.bmm(d_mixed, inputs.values.view(B * H, S, D).mT).view(B, H, S)
        if inputs.mask is not None:
            d_weights *= inputs.mask[t]
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        tanh = _tanh(inputs, self.out.queries[t], self.buffer)
        rows = d_scores.view(B * H, 1, S)
        torch.baddbmm(self.d_score, rows, tanh.view(B * H, S, D), out=self.d_score)
        square = tanh.square_()
        self.d_scores += d_scores
        self.squares.addcmul_(d_scores.unsqueeze(-1), square)
        # tanh' = 1 - tanh^2, and the gradients of scores add up to 0 over the source
        d_query = torch.bmm(rows, square.view(B * H, S, D)).view(B, H, D)
        self.d_queries[t] = d_query.mul_(inputs.score).neg_().flatten(1)

    def _results(self, d_z: Tensor, sums: GateGradients) -> tuple[Tensor, ...]:
        """Return the gradients of all inputs that have one, in their order."""
        inputs, out = self.inputs, self.out
        B, H, _, D = inputs.keys.shape
        N = H * D
        weights = out.weights if inputs.mask is None else out.weights * inputs.mask
        d_contexts = self.d_contexts.view(-1, B, H, D).permute(1, 2, 0, 3)  # [B, H, T + 1, D]
        x = inputs.x.reshape(len(d_z), -1)
        queries = self.d_queries[1:].view(-1, 1, N)
        return (
            (d_z[:, 0].to(x.dtype) @ inputs.input_weight[0].t()).view_as(inputs.x),
            weights.permute(1, 2, 3, 0) @ d_contexts,
            (self.d_scores.unsqueeze(-1) - self.squares).mul_(inputs.score),
            weight_gradients([x], d_z, inputs.input_weight),
            weight_gradients([out.joint[:-1].flatten(0, 1)], d_z, inputs.joint_weight),
            sums.gain.sum(0),
            sums.shift.sum(0),
            weight_gradients([out.joint[1:, :, :N].reshape(-1, N)], queries, inputs.query_weight),
            self.d_queries.sum((0, 1)),
            self.d_score.sum((0, 1)),
        )


_HAVE_GRADIENT = [name not in ("bias", "mask", "keeps_gates") for name in Inputs._fields]
attentive_operator = torch.library.custom_op(
    "jtrans::attentive_lstm", _forward, mutates_args=(), schema=f"({_INPUTS}) -> ({_OUTPUTS})"
)
backward_operator = torch.library.custom_op(
    "jtrans::attentive_lstm_backward",
    _backward,
    mutates_args=(),
    schema=f"(Tensor d_joint, {_INPUTS.removesuffix(', bool keeps_gates')}, {_OUTPUTS}) -> ("
    + ", ".join(["Tensor"] * sum(_HAVE_GRADIENT))
    + ")",
)


@attentive_operator.register_fake
def _(*arguments: Any) -> Outputs:
    return _buffers(Inputs(*arguments))


@backward_operator.register_fake
def _(d_joint: Tensor, *tensors: Any) -> tuple[Tensor, ...]:
    inputs = zip(tensors, _HAVE_GRADIENT[:-1], strict=False)
    return tuple(torch.empty_like(tensor) for tensor, has_gradient in inputs if has_gradient)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:-1], *output)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, d_joint: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    gradients = iter(backward_operator(d_joint, *ctx.saved_tensors))
    return tuple(next(gradients) if has_gradient else None for has_gradient in _HAVE_GRADIENT)


attentive_operator.register_autograd(_differentiate, setup_context=_save)
