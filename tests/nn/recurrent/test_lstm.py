"""The layer-normalised LSTM equals its equations written step by step (docs/systems.md 7.2)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.nn.recurrent.lstm import BidirectionalLstm, NormedLstm, Reversal

EXACT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64
WIDTH, N, T, LENGTHS = 6, 5, 7, [7, 3, 1]


def slow_cell(lstm: NormedLstm, d: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One step of one sentence, equation by equation."""
    weight = torch.cat([lstm.input.weight[d], lstm.state.weight[d]])
    z = (torch.cat([x, h]) @ weight).view(4, N)
    gain, shift = (part[d] for part in lstm.affine())
    deviation = torch.sqrt(((z - z.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) + 1e-8)
    a_u, a_i, a_f, a_o = (z - z.mean(1, keepdim=True)) / deviation * gain + shift
    c = torch.clamp(torch.sigmoid(a_f) * c + torch.sigmoid(a_i) * torch.tanh(a_u), -10.0, 10.0)
    return torch.sigmoid(a_o) * c, c


def slow_read(lstm: BidirectionalLstm, x: Tensor) -> Tensor:
    """Both directions of a padded batch; a padded step copies the state."""
    sentences = []
    for b, length in enumerate(LENGTHS):
        halves = []
        for d, order in enumerate((list(range(T)), list(reversed(range(T))))):
            h = c = x.new_zeros(N)
            states: dict[int, Tensor] = {}
            for t in order:
                if t < length:
                    h, c = slow_cell(lstm, d, x[t, b], h, c)
                states[t] = h
            halves.append(torch.stack([states[t] for t in range(T)]))
        sentences.append(torch.cat(halves, dim=-1))
    return torch.stack(sentences, dim=1)


def slow_last(lstm: NormedLstm, steps: Tensor) -> Tensor:
    """The state after the last step of one sentence."""
    h = c = steps.new_zeros(N)
    for step in steps:
        h, c = slow_cell(lstm, 0, step, h, c)
    return h


@pytest.fixture
def lstm() -> BidirectionalLstm:
    """A float64 LSTM with all parameters random."""
    torch.manual_seed(3)
    lstm = BidirectionalLstm(WIDTH, N, initial=0.04).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter)
    return lstm


@pytest.fixture
def x() -> Tensor:
    """Inputs of three sentences, padding included, [T, B, I]."""
    return torch.randn(T, 3, WIDTH, dtype=torch.float64, requires_grad=True)


MASK = torch.arange(T)[:, None] < torch.tensor(LENGTHS)


@pytest.mark.parametrize("saves_memory", [False, True])
def test_the_operator_equals_the_equations_and_so_do_its_gradients(
    lstm: BidirectionalLstm, x: Tensor, saves_memory: bool
) -> None:
    lstm.saves_memory = saves_memory
    fast, slow = lstm.read(x, Reversal.of(MASK)), slow_read(lstm, x)
    torch.testing.assert_close(fast, slow, **EXACT)  # N3: padding included
    weights = torch.randn_like(fast)
    inputs = [x, *lstm.parameters()]
    ours, theirs = (torch.autograd.grad((y * weights).sum(), inputs) for y in (fast, slow))
    for gradient, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, **EXACT)


def test_clipped_cells_stay_at_ten_and_pass_no_gradient(x: Tensor) -> None:
    lstm = NormedLstm(WIDTH, N, initial=0.04).double()
    with torch.no_grad():
        lstm.gain[: 3 * N] = 0.1
        lstm.shift[: 3 * N] = 5.0  # u, i and f are nearly 1: c grows by 1 a step
    long = x.repeat(3, 1, 1)
    state = cell = torch.zeros(3, N, dtype=torch.float64)
    for step in long:
        state, cell = lstm.step(step, state, cell)
    torch.testing.assert_close(cell, torch.full_like(cell, 10.0))  # N2
    slow = torch.stack([slow_last(lstm, long[:, b]) for b in range(3)])
    fast = lstm(long)[-1, :, 0]
    inputs = [x, *lstm.parameters()]
    ours, theirs = (torch.autograd.grad(y.square().sum(), inputs) for y in (fast, slow))
    for gradient, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, **EXACT)


def test_any_input_keeps_the_cell_within_ten() -> None:
    lstm = NormedLstm(WIDTH, N, initial=0.04).double()
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=100.0)
    x = 1e6 * torch.randn(50, 4, WIDTH, dtype=torch.float64)
    assert lstm(x).abs().max() <= 10.0  # N2, as the output is at most the cell


def test_stepping_equals_reading_at_once(x: Tensor) -> None:
    lstm = NormedLstm(WIDTH, N, initial=0.04).double()
    state = cell = torch.zeros(3, N, dtype=torch.float64)
    states = []
    with torch.no_grad():
        for step in x:
            state, cell = lstm.step(step, state, cell)
            states.append(state)
        torch.testing.assert_close(lstm(x).squeeze(2), torch.stack(states), **EXACT)


@pytest.mark.parametrize("gate", range(4))
def test_scaling_a_gate_before_its_norm_changes_nothing(x: Tensor, gate: int) -> None:
    lstm = NormedLstm(WIDTH, N, initial=1.0).double()
    before = lstm(x)
    with torch.no_grad():
        for weights in (lstm.input.weight, lstm.state.weight):
            weights.view(1, -1, 4, N)[:, :, gate] *= 50.0
    torch.testing.assert_close(lstm(x), before, rtol=1e-5, atol=1e-5)  # N1, epsilon aside


def test_scaling_the_input_of_the_first_step_changes_nothing(x: Tensor) -> None:
    lstm = NormedLstm(WIDTH, N, initial=1.0).double()
    first, scaled = lstm(x)[0], lstm(10.0 * x)[0]
    torch.testing.assert_close(scaled, first, rtol=1e-5, atol=1e-5)  # N1: h = 0


def test_each_half_depends_on_its_side_of_the_sentence_only(
    lstm: BidirectionalLstm, x: Tensor
) -> None:
    reversal = Reversal.of(torch.ones(T, 3, dtype=torch.bool))
    other = x.detach().clone()
    other[4] += torch.randn(WIDTH, dtype=torch.float64)
    with torch.no_grad():
        change = lstm.read(other, reversal) - lstm.read(x, reversal)
    forward, backward = change.unflatten(-1, (2, N)).unbind(2)
    assert not forward[:4].any()  # N4
    assert forward[4:].abs().amax((1, 2)).min() > 0.0
    assert not backward[5:].any()
    assert backward[:5].abs().amax((1, 2)).min() > 0.0


def test_padding_on_the_right_changes_no_state(lstm: BidirectionalLstm, x: Tensor) -> None:
    padded = lstm.read(x, Reversal.of(MASK))
    for b, length in enumerate(LENGTHS):
        alone = x[:length, b : b + 1]
        states = lstm.read(alone, Reversal.of(torch.ones(length, 1, dtype=torch.bool)))
        torch.testing.assert_close(padded[:length, b], states[:, 0], **EXACT)  # N3
        forward, backward = padded[length:, b].unflatten(-1, (2, N)).unbind(1)
        torch.testing.assert_close(forward, states[-1:, 0, :N].expand_as(forward), **EXACT)
        assert not backward.any()


@pytest.mark.parametrize("saves_memory", [False, True])
def test_the_operator_is_what_torch_expects_of_one(saves_memory: bool) -> None:
    lstm = NormedLstm(WIDTH, N, initial=0.04, directions=2)
    x = torch.randn(3, 2, WIDTH, requires_grad=True)
    weights = (lstm.input.weight, lstm.state.weight, *lstm.affine())
    copies = (weight.detach().clone().requires_grad_() for weight in weights)
    torch.library.opcheck(
        torch.ops.jtrans.lstm.default, (x, x.detach().flip(0), *copies, not saves_memory)
    )
