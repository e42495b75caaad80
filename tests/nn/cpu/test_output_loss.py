"""The loss of a linear output in blocks of tokens: the loss and the gradient of the formula."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jtrans.nn.cpu import output_loss as module
from jtrans.nn.cpu.output_loss import block_rows, output_loss


def tensors(n: int, e: int, v: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return hidden states, weight, bias and labels."""
    torch.manual_seed(n + 10 * e + 100 * v)
    shapes = (n, e), (v, e), (v,)
    numbers = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    return [*numbers, torch.randint(v, (n,))]


def expected(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, eps: float) -> Tensor:
    """Return both losses by the equation."""
    return torch.stack(
        [
            F.cross_entropy(
                F.linear(x, weight, bias), labels, label_smoothing=smoothing, reduction="sum"
            )
            for smoothing in (eps, 0.0)
        ]
    )


@given(
    n=st.integers(0, 20),
    e=st.integers(1, 9),
    v=st.integers(2, 30),
    logits=st.integers(1, 200),
    eps=st.sampled_from([0.0, 0.1, 0.9]),
    has_bias=st.booleans(),
)
def test_blocks_of_any_size_give_loss_and_gradient(
    n: int, e: int, v: int, logits: int, eps: float, has_bias: bool
) -> None:
    x, weight, bias, labels = tensors(n, e, v)
    inputs = [x, weight, *([bias] if has_bias else [])]
    before, module.LOGITS = module.LOGITS, logits
    try:
        loss, nll = output_loss(x, weight, bias if has_bias else None, labels, eps)
    finally:
        module.LOGITS = before
    wanted = expected(x, weight, bias if has_bias else None, labels, eps)
    torch.testing.assert_close(torch.stack([loss, nll]), wanted, rtol=1e-10, atol=1e-10)
    ours = torch.autograd.grad(loss / 7, inputs)
    theirs = torch.autograd.grad(wanted[0] / 7, inputs)
    for mine, plain in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-10, atol=1e-10)


def test_logits_far_apart_overflow_nowhere() -> None:
    x, weight, bias, labels = tensors(6, 4, 8)
    loss, nll = output_loss(1e6 * x, weight, bias, labels, 0.1)
    wanted = expected(1e6 * x, weight, bias, labels, 0.1)
    torch.testing.assert_close(torch.stack([loss, nll]), wanted)
    assert torch.autograd.grad(loss, x)[0].isfinite().all()


def test_weights_that_are_not_trained_get_no_gradient() -> None:
    x, weight, bias, labels = tensors(6, 4, 8)
    output_loss(x, weight.detach(), bias, labels, 0.1)[0].backward()
    assert x.grad is not None and bias.grad is not None and weight.grad is None
    with torch.no_grad():
        loss, _ = output_loss(x, weight, bias, labels, 0.1)
    assert not loss.requires_grad


def test_the_unsmoothed_loss_has_no_gradient() -> None:
    x, weight, bias, labels = tensors(6, 4, 8)
    loss, nll = output_loss(x, weight, bias, labels, 0.1)
    assert loss.requires_grad and not nll.requires_grad


def test_in_bf16_products_are_rounded_and_the_rest_is_not() -> None:
    x, weight, bias, labels = tensors(300, 16, 50, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, nll = output_loss(x, weight, bias, labels, 0.1)
    assert loss.dtype == nll.dtype == torch.float32
    wanted = expected(x, weight, bias, labels, 0.1)
    torch.testing.assert_close(torch.stack([loss, nll]), wanted, rtol=0.01, atol=0.0)
    ours = torch.autograd.grad(loss, [x, weight, bias])
    for mine, plain in zip(ours, torch.autograd.grad(wanted[0], [x, weight, bias]), strict=True):
        assert mine.dtype == plain.dtype == torch.float32
        assert (mine - plain).norm() < 0.02 * plain.norm()


def test_a_block_of_a_large_vocabulary_has_rows_enough_for_the_gradient_of_its_weights() -> None:
    assert block_rows(10_000, 256) * 10_000 <= module.LOGITS
    assert block_rows(1_000_000, 512) == 256
