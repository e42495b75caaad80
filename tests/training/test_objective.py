import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jtrans.training.objective import Objective

shapes = st.tuples(st.integers(1, 6), st.integers(2, 12), st.integers(0, 10**6))
epsilons = st.floats(0.0, 0.9)


def draw(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    N, V, seed = shape
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(N, V, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(1, V, (N,), generator=generator)


def by_definition(logits: Tensor, labels: Tensor, eps: float, form: str) -> Tensor:
    """docs/systems.md 0.6, term by term."""
    V = logits.shape[-1]
    log_probs = logits.log_softmax(-1)
    total = logits.new_zeros(())
    for row, reference in zip(log_probs, labels.tolist(), strict=True):
        others = [v for v in range(V) if form == "all" or v != reference]
        total = total - (1 - eps) * row[reference] - eps / len(others) * row[others].sum()
    return total


@pytest.mark.parametrize("form", ["all", "others"])
@given(shape=shapes, eps=epsilons)
def test_loss_and_gradient_are_those_of_the_definition(
    shape: tuple[int, int, int], eps: float, form: str
) -> None:
    logits, labels = draw(shape)
    loss, nll = Objective(eps, form)(logits, labels)  # type: ignore[arg-type]
    expected = by_definition(logits, labels, eps, form)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, by_definition(logits, labels, 0.0, form))
    (gradient,) = torch.autograd.grad(loss, logits)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, expected_gradient)


@given(shape=shapes, eps=epsilons)
def test_all_equals_others_with_less_smoothing(shape: tuple[int, int, int], eps: float) -> None:
    logits, labels = draw(shape)
    V = logits.shape[-1]
    spread_over_all, _ = Objective(eps, "all")(logits, labels)
    spread_over_others, _ = Objective(eps * (V - 1) / V, "others")(logits, labels)
    torch.testing.assert_close(spread_over_all, spread_over_others)


def test_padding_counts_nothing() -> None:
    logits, labels = draw((6, 8, 1))
    is_real = torch.tensor([True, False, True, True, False, True])
    loss, nll = Objective(0.1)(logits, labels * is_real)
    expected, expected_nll = Objective(0.1)(logits[is_real], labels[is_real])
    torch.testing.assert_close((loss, nll), (expected, expected_nll))
    (gradient,) = torch.autograd.grad(loss, logits)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, expected_gradient)


def test_gradient_follows_what_the_loss_is_multiplied_with() -> None:
    logits, labels = draw((3, 8, 1))
    (once,) = torch.autograd.grad(Objective(0.1)(logits, labels)[0], logits)
    (scaled,) = torch.autograd.grad(Objective(0.1)(logits, labels)[0] / 7, logits)
    torch.testing.assert_close(scaled * 7, once)


def test_huge_logits_give_a_finite_loss() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss, nll = Objective(0.1)(logits, torch.tensor([0]))
    loss.backward()
    assert nll.item() == 0.0
    assert loss.isfinite() and logits.grad is not None and logits.grad.isfinite().all()


def test_bf16_logits_are_summed_in_float32() -> None:
    logits = torch.randn(500, 64).bfloat16().requires_grad_()
    labels = torch.randint(64, (500,))
    loss, nll = Objective(0.1)(logits, labels)
    assert loss.dtype == nll.dtype == torch.float32
    torch.testing.assert_close(loss, Objective(0.1)(logits.float(), labels)[0])
    loss.backward()
    assert logits.grad is not None and logits.grad.dtype == torch.bfloat16
