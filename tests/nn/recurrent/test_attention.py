"""Additive attention and the LSTM that attends equal their equations (docs/systems.md 7.4, 7.5)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import record_attention
from jtrans.nn.recurrent.attention import AdditiveAttention
from jtrans.nn.recurrent.first_layer import AttentiveLstm
from jtrans.nn.recurrent.lstm import NormedLstm

EXACT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64
WIDTH, N, MEMORY, H, S, T, B = 6, 8, 10, 2, 7, 5, 3
MASK = torch.arange(S) < torch.tensor([7, 3, 1])[:, None]


def slow_attention(
    attention: AdditiveAttention, query: Tensor, memory: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Contexts [B, N] and weights [B, H, S] of one query per sentence, head by head."""
    keys, queries = attention.key(memory), attention.query(query)
    D = keys.shape[-1] // attention.heads
    contexts, weights = [], []
    for h in range(attention.heads):
        K, q = keys[..., h * D : (h + 1) * D], queries[..., h * D : (h + 1) * D]
        tanh = torch.tanh(K @ attention.key_map + (q @ attention.query_map)[:, None])
        scores = (tanh * attention.score).sum(-1).masked_fill(~MASK, float("-inf"))
        exponents = torch.exp(scores - scores.max(1, keepdim=True).values)
        A = exponents / exponents.sum(1, keepdim=True)
        weights.append(A)
        dropped = A if mask is None else A * mask[:, h]
        contexts.append((dropped[..., None] * K).sum(1))
    return torch.cat(contexts, dim=-1), torch.stack(weights, dim=1)


def slow_step(lstm: NormedLstm, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    z = (x @ lstm.input.weight[0] + h @ lstm.state.weight[0]).view(B, 4, N)
    gain, shift = (part[0] for part in lstm.affine())
    a = (z - z.mean(-1, keepdim=True)) / torch.sqrt(z.var(-1, correction=0, keepdim=True) + 1e-8)
    u, i, f, o = (a * gain + shift).unbind(1)
    c = torch.clamp(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u), -10.0, 10.0)
    return torch.sigmoid(o) * c, c


def slow_read(
    layer: AttentiveLstm, x: Tensor, memory: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """State and context of all steps, [T, B, 2N], and the weights, [B, H, T, S]."""
    state = cell = x.new_zeros(B, N)
    context, _ = slow_attention(layer.attention, state, memory, None if mask is None else mask[0])
    joint, maps = [], []
    for t in range(T):
        state, cell = slow_step(layer.lstm, torch.cat([x[t], context], dim=-1), state, cell)
        dropped = None if mask is None else mask[t + 1]
        context, weights = slow_attention(layer.attention, state, memory, dropped)
        joint.append(torch.cat([state, context], dim=-1))
        maps.append(weights)
    return torch.stack(joint), torch.stack(maps, dim=2)


@pytest.fixture
def layer() -> AttentiveLstm:
    """A float64 layer in training mode with all parameters random."""
    torch.manual_seed(4)
    layer = AttentiveLstm(WIDTH, N, MEMORY, H, dropout=0.3, initial=0.04).double().train()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("saves_memory", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_operator_equals_the_equations_and_so_do_its_gradients(
    layer: AttentiveLstm, rate: float, saves_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = None if rate == 0.0 else (torch.rand(T + 1, B, H, S) >= rate).double() / (1 - rate)
    monkeypatch.setattr(layer.attention.dropout, "mask", lambda _: mask)
    layer.lstm.saves_memory = saves_memory
    x = torch.randn(T, B, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(B, S, MEMORY, dtype=torch.float64, requires_grad=True)
    with record_attention() as recorded:
        fast = layer(x, layer.attention.keys(memory, MASK))
    slow, weights = slow_read(layer, x, memory, mask)
    torch.testing.assert_close(fast, slow, **EXACT)
    torch.testing.assert_close(recorded[layer.attention], weights, **EXACT)
    factors = torch.randn_like(fast)
    inputs = [x, memory, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * factors).sum(), inputs) for y in (fast, slow))
    for gradient, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, **EXACT)


def test_attention_of_several_queries_equals_its_equations(layer: AttentiveLstm) -> None:
    memory = torch.randn(B, S, MEMORY, dtype=torch.float64)
    queries = torch.randn(B, 4, N, dtype=torch.float64)
    attention = layer.attention.eval()
    with record_attention() as recorded:
        contexts = attention(queries, attention.keys(memory, MASK))
    for n in range(4):
        context, weights = slow_attention(attention, queries[:, n], memory)
        torch.testing.assert_close(contexts[:, n], context, **EXACT)
        torch.testing.assert_close(recorded[attention][:, :, n], weights, **EXACT)


def test_the_first_context_is_that_of_a_query_of_zero_and_not_zero(layer: AttentiveLstm) -> None:
    memory = torch.randn(B, S, MEMORY, dtype=torch.float64)
    x = torch.randn(T, B, WIDTH, dtype=torch.float64)
    zero = torch.zeros(B, N, dtype=torch.float64)
    attention = layer.eval().attention
    context, _ = slow_attention(attention, zero, memory)
    assert context.abs().min() > 0.0  # N7
    first = layer(x, attention.keys(memory, MASK))[0]
    state, _ = slow_step(layer.lstm, torch.cat([x[0], context], dim=-1), zero, zero)
    torch.testing.assert_close(first[:, :N], state, **EXACT)


def test_dropout_draws_a_mask_for_every_step(
    layer: AttentiveLstm, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout, masks = layer.attention.dropout, []
    monkeypatch.setattr(dropout, "mask", lambda x: masks.append(SharedDropout.mask(dropout, x)))
    keys = layer.attention.keys(torch.randn(B, S, MEMORY, dtype=torch.float64), MASK)
    layer(torch.randn(T, B, WIDTH, dtype=torch.float64), keys)
    layer.eval()(torch.randn(T, B, WIDTH, dtype=torch.float64), keys)
    assert [None if mask is None else mask.shape for mask in masks] == [(T + 1, B, H, S), None]


@pytest.mark.thorough
@pytest.mark.parametrize("has_mask", [False, True])
def test_the_operator_is_what_torch_expects_of_one(has_mask: bool) -> None:
    layer = AttentiveLstm(WIDTH, N, MEMORY, H, dropout=0.0, initial=0.04)
    keys = layer.attention.keys(torch.randn(B, S, MEMORY), MASK)
    weight, bias = layer.attention.query_projection()
    arguments = [
        torch.randn(3, B, WIDTH),
        keys.values,
        keys.keys,
        keys.bias,
        torch.rand(4, B, H, S) if has_mask else None,
        layer.lstm.input.weight[:, :WIDTH],
        torch.randn(1, 2 * N, 4 * N),
        *layer.lstm.affine(),
        weight[None],
        bias,
        layer.attention.score,
    ]
    copies = [
        each if each is None else each.detach().clone().requires_grad_(n not in (3, 4))
        for n, each in enumerate(arguments)
    ]
    torch.library.opcheck(torch.ops.jtrans.attentive_lstm.default, (*copies, True))
