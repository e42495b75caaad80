"""Training in blocks of positions gives what the plain modules give, gradients included."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from jtrans.nn import fast
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu import blocks
from jtrans.nn.cpu.blocks import narrow, parts
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.fast import form_in_blocks, pays_in_blocks, plain_forms, reduce
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.recorder import record_attention
from jtrans.nn.reduction import AttentionReduction, MaxReduction
from jtrans.nn.residual import Residual
from jtrans.nn.separable import SourceAttention, TargetAttention

E, F, H = 12, 20, 3
B, T, S = 3, 5, 4
LENGTHS = torch.tensor([4, 2, 3])
Case = tuple[nn.Module, tuple[int, ...], dict[str, Any], tuple[int, ...]]


def cases(rate: float) -> dict[str, Case]:
    """Name: block, shape of x, further arguments, shared axes of the output's dropout."""
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
    saves_memory: bool = False,
) -> list[list[Tensor]]:
    """Result and gradients of the plain form, then of blocks of at most 7 positions."""
    block, shape, arguments, axes = case
    wrapper = Residual(E, SharedDropout(rate, axes), pre_norm=True)
    wrapper.saves_memory = saves_memory
    torch.manual_seed(2)
    modules = nn.ModuleList([block, wrapper]).to(dtype)
    for parameter in modules.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    seed = torch.randn(shape, dtype=dtype)
    monkeypatch.setattr(blocks, "ROWS", 7)
    monkeypatch.setattr(fast, "WIDE", 1)  # in bf16, too
    results = []
    for context in (plain_forms, contextlib.nullcontext):
        modules.zero_grad()
        x.grad = None
        torch.manual_seed(3)  # the same dropout masks
        with context(), torch.autocast("cpu", dtype=precision, enabled=precision is not None):
            assert (form_in_blocks(block, x, **arguments) is None) == (context is plain_forms)
            result = wrapper(x, block, **arguments)
        (result * seed).sum().backward()
        gradients = [p.grad for p in (x, *modules.parameters()) if p.grad is not None]
        assert len(gradients) == 1 + len(list(modules.parameters()))
        results.append([result.detach(), *gradients])
    return results


@pytest.mark.parametrize("name", cases(0.0))
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_blocks_equal_the_plain_form(
    name: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, in_blocks = both(cases(rate)[name], monkeypatch, rate=rate)
    for ours, theirs in zip(in_blocks, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", cases(0.0))
def test_what_is_computed_again_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, in_blocks = both(cases(0.3)[name], monkeypatch, rate=0.3, saves_memory=True)
    for ours, theirs in zip(in_blocks, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", cases(0.0))
def test_in_bf16_blocks_are_as_near_as_the_plain_form(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases(0.3)[name]
    exact, _ = both(case, monkeypatch, rate=0.3, dtype=torch.float32)
    plain, in_blocks = both(
        case, monkeypatch, rate=0.3, dtype=torch.float32, precision=torch.bfloat16
    )
    for ours, theirs, true in zip(in_blocks, plain, exact, strict=True):
        scale = float(true.norm())
        error, plain_error = float((ours - true).norm()), float((theirs - true).norm())
        assert error <= 1.5 * plain_error + 0.01 * scale


@pytest.mark.parametrize("has_padding", [False, True])
@pytest.mark.parametrize("has_norm", [False, True])
@pytest.mark.parametrize("kind", [AttentionReduction, MaxReduction])
def test_a_reduction_in_blocks_equals_the_whole(
    kind: type[nn.Module], has_norm: bool, has_padding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ROWS", 7)
    bias = torch.zeros(B, S).masked_fill(torch.arange(S) >= LENGTHS[:, None], float("-inf"))
    norm = nn.LayerNorm(E).double() if has_norm else None
    reduction = (kind(E) if kind is AttentionReduction else kind()).double()
    x = torch.randn(B, T, S, E, dtype=torch.float64, requires_grad=True)
    results = []
    for context in (plain_forms, contextlib.nullcontext):
        with context():
            reduced = reduce(norm, reduction, x, bias if has_padding else None)
        assert reduced.shape == (B, T, E)
        leaves = [x, *reduction.parameters()]
        results.append((reduced, *torch.autograd.grad(reduced.square().sum(), leaves)))
    for whole, in_blocks in zip(*results, strict=True):
        torch.testing.assert_close(in_blocks, whole)


@given(
    shape=st.lists(st.integers(1, 9), min_size=3, max_size=5),
    rows=st.integers(1, 40),
)
def test_parts_cover_every_vector_once_and_keep_within_the_budget(
    shape: list[int], rows: int
) -> None:
    tensor = torch.zeros(shape)
    line = max(1, tensor.shape[2:-1].numel())
    before, blocks.ROWS = blocks.ROWS, rows
    try:
        cut = list(parts(tensor.shape))
    finally:
        blocks.ROWS = before
    for part in cut:
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
        assert pays_in_blocks(x, saves_memory=saves_memory, has_norm=True) is expected


def test_blocks_are_not_used_with_a_cache_while_recording_or_without_a_gradient() -> None:
    block, x = cases(0.0)["decoder"][0], torch.ones(1, 2, E)
    assert form_in_blocks(block, x) is not None
    assert form_in_blocks(block, x, cache=object()) is None
    with record_attention():
        assert form_in_blocks(block, x) is None
    with torch.no_grad():
        assert form_in_blocks(block, x) is None


@pytest.mark.parametrize("name", [name for name, case in cases(0.0).items() if len(case[1]) == 4])
@torch.no_grad()
def test_large_grids_are_computed_in_blocks_without_a_gradient(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, shape, arguments, axes = cases(0.0)[name]
    wrapper = Residual(E, SharedDropout(0.0, axes), pre_norm=True)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert form_in_blocks(block, x, **arguments) is None
    expected = wrapper(x, block, **arguments)
    monkeypatch.setattr(blocks, "ROWS", 7)
    monkeypatch.setattr(fast, "LARGE", x.shape[:-1].numel())
    assert form_in_blocks(block, x, **arguments) is not None
    torch.testing.assert_close(wrapper(x, block, **arguments), expected)
    reduction, norm = AttentionReduction(E), nn.LayerNorm(E)
    torch.testing.assert_close(reduce(norm, reduction, x, None), reduction(norm(x), None))


@pytest.mark.parametrize("saves_memory", [False, True])
def test_other_devices_have_no_form_in_blocks(saves_memory: bool) -> None:
    block, x = cases(0.0)["FFN"][0], torch.ones(1, 2, E)
    assert form_in_blocks(block, x, saves_memory=saves_memory) is not None
    assert form_in_blocks(block, x.to("meta"), saves_memory=saves_memory) is None


def test_a_function_is_called_as_it_is() -> None:
    wrapper = Residual(E, SharedDropout(0.0), pre_norm=True)
    x = torch.randn(1, 2, E)
    torch.testing.assert_close(wrapper(x, lambda y: 2 * y), x + 2 * wrapper.norm(x))
