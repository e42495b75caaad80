"""Training in blocks of positions gives what the plain modules give, gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from jtrans.nn import residual
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu import blocks as blockwise
from jtrans.nn.cpu.blocks import is_blockwise, narrow, parts, reduce_in_parts
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.residual import Residual
from jtrans.nn.separable import SourceAttention, TargetAttention

E, F, H = 12, 20, 3
B, T, S = 3, 5, 4
LENGTHS = torch.tensor([4, 2, 3])
Case = tuple[nn.Module, tuple[int, ...], dict[str, Any], tuple[int, ...]]


def cases(rate: float) -> dict[str, Case]:
    """Name: block, shape of x, further arguments, axes along which output noise is shared."""
    bias = torch.zeros(B, S).masked_fill(torch.arange(S) >= LENGTHS[:, None], float("-inf"))
    grid, sentence = (B, T, S, E), (B, S, E)
    shared, alone = SharedDropout(rate, (1,)), SharedDropout(rate)
    return {
        "target attention": (TargetAttention(E, H, shared), grid, {}, (2,)),
        "source attention": (SourceAttention(E, H, shared), grid, {"source_bias": bias}, (1,)),
        "source attention, no padding": (
            SourceAttention(E, H, shared),
            grid,
            {"source_bias": None},
            (1,),
        ),
        "encoder": (MultiHeadAttention(E, H, alone), sentence, {"bias": bias[:, None, None]}, ()),
        "decoder": (MultiHeadAttention(E, H, alone), sentence, {"causal": True}, ()),
        "FFN on the grid": (FeedForward(E, F, SharedDropout(rate, (1, 2))), grid, {}, (1, 2)),
        "FFN": (FeedForward(E, F, alone), sentence, {}, ()),
    }


def both(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rate: float,
    dtype: torch.dtype = torch.float64,
    precision: torch.dtype | None = None,
) -> list[list[Tensor]]:
    """Result and gradients of the plain form, then of blocks of at most 7 positions."""
    block, shape, arguments, axes = case
    wrapper = Residual(E, SharedDropout(rate, axes), pre_norm=True)
    torch.manual_seed(2)
    modules = nn.ModuleList([block, wrapper]).to(dtype)
    for parameter in modules.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    seed = torch.randn(shape, dtype=dtype)
    monkeypatch.setattr(blockwise, "ROWS", 7)
    found = []
    for is_on in (False, True):
        monkeypatch.setattr(residual, "is_blockwise", lambda *_, on=is_on, **__: on)
        modules.zero_grad()
        x.grad = None
        torch.manual_seed(3)  # the same noise
        with torch.autocast("cpu", dtype=precision, enabled=precision is not None):
            result = wrapper(x, block, **arguments)
        (result * seed).sum().backward()
        gradients = [p.grad for p in (x, *modules.parameters()) if p.grad is not None]
        assert len(gradients) == 1 + len(list(modules.parameters()))
        found.append([result.detach(), *gradients])
    return found


@pytest.mark.parametrize("name", cases(0.0))
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_blocks_equal_the_plain_form(
    name: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, blocks = both(cases(rate)[name], monkeypatch, rate=rate)
    for ours, theirs in zip(blocks, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["FFN on the grid", "FFN"])
def test_a_hidden_layer_computed_again_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases(0.3)[name]
    case[0].keep_hidden = False  # type: ignore[assignment]
    plain, blocks = both(case, monkeypatch, rate=0.3)
    for ours, theirs in zip(blocks, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", cases(0.0))
def test_in_bf16_blocks_are_as_near_as_the_plain_form(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases(0.3)[name]
    exact, _ = both(case, monkeypatch, rate=0.3, dtype=torch.float32)
    plain, blocks = both(case, monkeypatch, rate=0.3, dtype=torch.float32, precision=torch.bfloat16)
    for ours, theirs, wanted in zip(blocks, plain, exact, strict=True):
        scale = float(wanted.norm())
        error, plain_error = float((ours - wanted).norm()), float((theirs - wanted).norm())
        assert error <= 1.5 * plain_error + 0.01 * scale


@pytest.mark.parametrize("has_padding", [False, True])
def test_a_reduction_in_parts_equals_the_whole(
    has_padding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockwise, "ROWS", 7)
    bias = torch.zeros(B, 1, S).masked_fill(torch.arange(S) >= LENGTHS[:, None, None], -torch.inf)
    weight = torch.randn(E, E, dtype=torch.float64, requires_grad=True)
    x = torch.randn(B, T, S, E, dtype=torch.float64, requires_grad=True)

    def reduce(x: Tensor, bias: Tensor | None) -> Tensor:
        scores = x @ weight
        scores = scores if bias is None else scores + bias[..., None]
        return (scores.softmax(2) * x).sum(2)

    found = []
    for run in (reduce, lambda *arguments: reduce_in_parts(reduce, *arguments)):
        result = run(x, bias if has_padding else None)
        assert result.shape == (B, T, E)
        found.append((result, *torch.autograd.grad(result.square().sum(), (x, weight))))
    for whole, in_parts in zip(*found, strict=True):
        torch.testing.assert_close(in_parts, whole)


@given(
    shape=st.lists(st.integers(1, 9), min_size=3, max_size=5),
    rows=st.integers(1, 40),
)
def test_parts_cover_every_vector_once_and_keep_within_the_budget(
    shape: list[int], rows: int
) -> None:
    tensor = torch.zeros(shape)
    line = max(1, tensor.shape[2:-1].numel())
    before, blockwise.ROWS = blockwise.ROWS, rows
    try:
        found = list(parts(tensor.shape))
    finally:
        blockwise.ROWS = before
    for part in found:
        tensor[part] += 1
        assert tensor[part].shape[:-1].numel() <= max(rows, line)
    assert bool((tensor == 1).all())


def test_axes_of_size_one_stay_whole() -> None:
    table = torch.arange(3.0).view(3, 1, 1)
    part = (slice(1, 2), slice(2, 4))
    cut = narrow(table, part)
    assert cut is not None and cut.tolist() == [[[1.0]]]
    assert narrow(None, part) is None


@pytest.mark.parametrize(
    ("width", "precision", "saves_memory", "expected"),
    [
        (64, torch.float32, False, True),
        (64, torch.bfloat16, False, False),  # computing again would cost more than it saves
        (64, torch.bfloat16, True, True),
        (256, torch.bfloat16, False, True),
    ],
)
def test_blocks_are_taken_where_they_are_as_fast_or_asked_for(
    width: int, precision: torch.dtype, saves_memory: bool, expected: bool
) -> None:
    x = torch.ones(1, 2, 3, width)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        assert is_blockwise(x, saves_memory=saves_memory) is expected
        with torch.no_grad():
            assert not is_blockwise(x, saves_memory=True)
