"""The gradient guard (docs/systems.md 7.8, N10)."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plugins.small_corpus import tiny_config
from safetensors.torch import load_file

from jtrans.config import TrainingConfig
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS, UNK
from jtrans.training.optimisation.guard import GradientGuard
from jtrans.training.optimisation.optimiser import add_l2, make_optimiser, step_unless
from jtrans.training.session import train

CPU = torch.device("cpu")


def judge(guard: GradientGuard, norm: float) -> bool:
    return bool(guard.judge(torch.tensor(norm)))


class SlowGuard:
    """The equations of section 7.8, one number at a time."""

    def __init__(self) -> None:
        self.M = self.Q = self.w = 0.0

    def judge(self, norm: float) -> bool:
        if not math.isfinite(norm):
            return True
        r = math.log(1.0 + max(norm, 0.01))
        mean = self.M / max(self.w, 1e-6)
        deviation = math.sqrt(max(self.Q / max(self.w, 1e-6) - mean**2, 1e-6))
        cap = mean + 4.0 * deviation
        skip = r > cap and self.w > 0.75
        capped = min(r, cap)
        self.M += 0.005 * (capped - self.M)
        self.Q += 0.005 * (capped**2 - self.Q)
        self.w += 0.005 * (1.0 - self.w)
        return skip


norms = st.one_of(st.floats(0.0, 1e6), st.sampled_from([math.nan, math.inf, 1e30, 0.0]))


@given(values=st.lists(norms, max_size=60), before=st.integers(0, 400))
def test_the_guard_follows_its_equations(values: list[float], before: int) -> None:
    """N10."""
    guard, slow = GradientGuard(CPU), SlowGuard()
    for value in [1.0, 1.5] * (before // 2) + values:
        norm = torch.tensor(value, dtype=torch.float64)
        assert bool(guard.judge(norm)) == slow.judge(value)
    assert guard.averages == pytest.approx([slow.M, slow.Q, slow.w], rel=1e-9, abs=1e-12)


def test_a_sudden_norm_is_dropped_only_once_the_averages_are_trusted() -> None:
    """N10: the first 277 updates are never dropped for size."""
    for updates, dropped in ((276, False), (277, True), (300, True)):
        guard = GradientGuard(CPU)
        assert not any(judge(guard, 1.0 + 0.1 * (i % 3)) for i in range(updates))
        assert judge(guard, 1e4) is dropped


@pytest.mark.parametrize("norm", [math.nan, math.inf])
@pytest.mark.parametrize("updates", [0, 5, 400])
def test_a_norm_that_is_not_finite_is_dropped_at_any_time(norm: float, updates: int) -> None:
    """N10: and leaves the averages untouched."""
    guard = GradientGuard(CPU)
    for _ in range(updates):
        judge(guard, 1.0)
    before = guard.averages
    assert judge(guard, norm)
    assert guard.averages == before


@pytest.mark.parametrize("start", [0.01, 1.0, 50.0])
def test_slow_growth_is_never_dropped(start: float) -> None:
    """N10: 0.1 % an update."""
    guard = GradientGuard(CPU)
    assert not any(judge(guard, start * 1.001**update) for update in range(4000))


def test_a_lasting_change_is_accepted_in_the_end() -> None:
    """Dropped norms move the averages, too, up to the cap."""
    guard = GradientGuard(CPU)
    for _ in range(400):
        judge(guard, 1.0)
    dropped = [judge(guard, 100.0) for _ in range(3000)]
    assert dropped[0] and not dropped[-1]


def test_a_judgement_reads_nothing_from_the_device() -> None:
    """A GPU would stop until it has answered; tensors on `meta` have no values to read."""
    guard = GradientGuard(torch.device("meta"))
    assert guard.judge(torch.zeros((), device="meta")).is_meta


def optimiser_of(model: torch.nn.Module, name: str) -> torch.optim.Optimizer:
    decay = 0.1 if name == "adam" else 0.0
    values = {"optimiser": {"name": name}, "weight_decay": decay, "learning_rate": 0.1}
    return make_optimiser(model, TrainingConfig.model_validate(values))


def test_nesterov_follows_its_equations() -> None:
    """docs/systems.md 0.7: m <- mu m + g, p <- p - rate (g + mu m), from m = 0."""
    model = torch.nn.Linear(3, 2).double()
    optimiser = optimiser_of(model, "nesterov")
    expected, m = model.weight.detach().clone(), torch.zeros_like(model.weight)
    for rate in (0.1, 0.2, 0.05):
        g = torch.randn_like(expected)
        model.weight.grad = g.clone()
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        m = 0.99 * m + g
        expected -= rate * (g + 0.99 * m)
        torch.testing.assert_close(model.weight.detach(), expected)


def everything(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> list[Any]:
    state = [value.clone() for values in optimiser.state.values() for value in values.values()]
    return [*(parameter.detach().clone() for parameter in model.parameters()), *state]


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], ids=["cpu", "cuda"]
)
@pytest.mark.parametrize("name", ["adam", "nesterov", "adafactor"])
def test_a_dropped_update_changes_neither_parameters_nor_the_optimiser(
    name: str, device: str
) -> None:
    """N10: bit for bit, the count of updates included; the next one counts again."""
    model = torch.nn.Linear(3, 2).to(device)
    optimiser = optimiser_of(model, name)
    for value in (1.0, math.nan, 2.0):
        before = everything(model, optimiser)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, value)
        dropped = torch.tensor(math.isnan(value), device=device)
        step_unless(dropped, optimiser)
        after = everything(model, optimiser)
        same = [torch.equal(old, new) for old, new in zip(before, after, strict=False)]
        assert all(same) if math.isnan(value) else not any(same)


def test_tokens_that_an_update_does_not_contain_have_no_penalty() -> None:
    """Adam would take the penalty of their rows for a gradient, and make them vanish."""
    embedding = torch.nn.Embedding(5, 3)
    model = torch.nn.Sequential(embedding, torch.nn.Linear(3, 2)).double()
    table = embedding.weight
    before = table.detach().clone()
    model(torch.tensor([1, 3])).square().sum().backward()
    assert table.grad is not None
    table.grad[1, 0] = 0.0  # by chance: the token is in the update
    gradient = table.grad.clone()
    add_l2(model.parameters(), 0.25, [table])
    seen = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0])[:, None].double()
    torch.testing.assert_close(table.grad, gradient + 0.25 * before * seen)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    optimiser.step()
    is_same = torch.eq(table, before).all(-1)
    assert is_same.tolist() == [True, False, True, False, True]


def test_training_with_the_penalty_leaves_tokens_without_data_alone(
    _nouns: Path, tmp_path: Path
) -> None:
    tables = []
    for l2 in (0.0, 0.1):
        config = tiny_config(l2=l2, max_updates=3)
        run = Run.open(train(config, data=_nouns, run=tmp_path / str(l2)).run)
        tables.append(load_file(run.checkpoint("last").weights)["source_embedding.tokens.weight"])
    without, with_penalty = tables
    assert torch.equal(without[UNK], with_penalty[UNK])  # which no sentence contains
    assert not torch.equal(without[EOS], with_penalty[EOS])


def test_the_penalty_is_on_matrices_only() -> None:
    """docs/systems.md 7.8: the gradient of 0.5 l2 sum(p^2), for weights without biases."""
    linear = torch.nn.Linear(3, 2)
    model = torch.nn.Sequential(linear, torch.nn.LayerNorm(2)).double()
    model(torch.randn(4, 3, dtype=torch.float64)).square().sum().backward()
    expected = [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]
    expected[0] += torch.autograd.grad(0.5 * 0.25 * linear.weight.square().sum(), linear.weight)[0]
    add_l2(model.parameters(), 0.25)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
