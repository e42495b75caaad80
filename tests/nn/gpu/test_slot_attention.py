"""The kernel of a step's attention, interpreted and compiled, beside matrix products."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from nn.gpu.conftest import Interpret, compile_for_hopper
from torch import Tensor

from jtrans.nn.gpu.slot_attention import slot_attention, source_attention

pytest.importorskip("triton")

HEADS = 2
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the norm of the difference


def inputs(
    *, lines: int, beam: int, slots: int, used: int, dtype: torch.dtype, width: int = 16
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what two sentences' hypotheses read after `used` slots; later ones hold no numbers."""
    generator = torch.Generator().manual_seed(used)
    rows = torch.randn(2, beam, lines, 3, HEADS, width, generator=generator).to(dtype)
    held = torch.randn(2, 2, lines, HEADS, slots, width, generator=generator).to(dtype)
    held[..., used:, :] = float("nan")
    is_own = torch.rand(2 * beam, slots, generator=generator) < 0.5
    new = torch.arange(used, used + beam)
    is_own[:, used:] = False
    is_own[:, new] = torch.eye(beam, dtype=torch.bool).repeat(2, 1)
    bias = torch.zeros(is_own.shape).masked_fill_(~is_own, float("-inf")).to(dtype)
    return rows.permute(3, 0, 2, 4, 1, 5), held, bias, new


def check(interpreter: Interpret, *tensors: Tensor) -> None:
    """Compare what the kernel returns and writes with products in float64."""
    qkv, held, bias, new = tensors
    exact = held.double().nan_to_num()  # products would spread what no slot holds yet
    expected = slot_attention(qkv.double(), exact, bias.double(), new)
    ours = interpreter("slot_kernel.read_and_write", qkv, held, bias, new)
    assert ours.dtype == qkv.dtype and ours.stride() == expected.stride()
    distance = (ours.double() - expected).norm() / expected.norm()
    assert distance < TOLERANCE[qkv.dtype]  # false for nan
    assert torch.equal(held.double().nan_to_num(), exact)


@pytest.mark.sample(5)
@pytest.mark.parametrize("used", [0, 1, 5, 63, 64, 65, 120])
@pytest.mark.parametrize("lines", [1, 3])
def test_every_hypothesis_reads_its_own_slots(
    interpreter: Interpret, lines: int, used: int
) -> None:
    check(
        interpreter,
        *inputs(lines=lines, beam=5, slots=128, used=used, dtype=torch.float32),
    )


@pytest.mark.parametrize("beam", [1, 2, 16, 20])
def test_beams_of_any_size_are_read(interpreter: Interpret, beam: int) -> None:
    check(interpreter, *inputs(lines=2, beam=beam, slots=64, used=40, dtype=torch.float32))


@pytest.mark.parametrize("width", [8, 24, 64, 128])
def test_heads_of_any_width_are_read(interpreter: Interpret, width: int) -> None:
    tensors = inputs(lines=2, beam=3, slots=64, used=50, dtype=torch.float32, width=width)
    check(interpreter, *tensors)


def test_bfloat16_stays_within_its_rounding(interpreter: Interpret) -> None:
    check(interpreter, *inputs(lines=2, beam=5, slots=128, used=90, dtype=torch.bfloat16))


def test_inputs_of_another_type_than_the_slots_are_rounded_first(interpreter: Interpret) -> None:
    qkv, held, bias, new = inputs(lines=2, beam=5, slots=64, used=30, dtype=torch.bfloat16)
    exact = held.clone().nan_to_num()
    expected = slot_attention(qkv.float(), exact, bias, new)
    ours = interpreter("slot_kernel.read_and_write", qkv.float(), held, bias, new)
    assert ours.dtype == torch.float32
    assert (ours - expected).norm() / expected.norm() < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("source", [1, 16, 63, 64, 130])
def test_every_hypothesis_reads_the_source(
    interpreter: Interpret, source: int, has_bias: bool, dtype: torch.dtype
) -> None:
    q, *others = of_source(source, has_bias=has_bias)
    keys, values, bias = (None if each is None else each.to(dtype) for each in others)
    q = q.to(dtype)
    exact = (None if each is None else each.double() for each in (q, keys, values, bias))
    expected = source_attention(*exact)
    ours = interpreter("slot_kernel.read", q, keys, values, bias)
    assert ours.dtype == dtype and ours.stride() == expected.stride()
    assert (ours.double() - expected).norm() / expected.norm() < TOLERANCE[dtype]


def of_source(source: int, *, has_bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return queries of five hypotheses, and what they read of two sentences, one with padding."""
    generator = torch.Generator().manual_seed(source)
    q = torch.randn(2, 5, HEADS, 16, generator=generator).transpose(1, 2)
    keys = torch.randn(2, HEADS, 16, source, generator=generator)
    values = torch.randn(2, HEADS, source, 16, generator=generator)
    bias = torch.zeros(2, source)
    bias[1, max(1, source - 3) :] = float("-inf")
    return q, keys, values, bias if has_bias else None


@pytest.mark.thorough
def test_the_operators_pass_the_checks_of_torch() -> None:
    qkv, held, bias, new = inputs(lines=2, beam=3, slots=64, used=9, dtype=torch.float32)
    torch.library.opcheck(slot_attention, (qkv, held.nan_to_num(), bias, new))
    for has_bias in (True, False):
        torch.library.opcheck(source_attention, of_source(9, has_bias=has_bias))


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="nothing is compiled by it")
@pytest.mark.parametrize("types", ["bf16", pytest.param("fp32", marks=pytest.mark.slow)])
def test_the_kernel_compiles_for_hopper(
    types: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.nn.gpu import slot_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    pointers = dict.fromkeys(("q", "k", "v", "keys", "values", "bias", "out"), f"*{types}")
    sizes = {"BEAM": 5, "ROWS": 16, "WIDTH": 64, "BLOCK_D": 64, "BLOCK": slot_kernel.BLOCK}
    for writes in (True, False):
        constants = {**sizes, "WRITES": writes, "HAS_BIAS": True}
        compiled = compile_for_hopper(
            slot_kernel._kernel, {**pointers, "new": "*i64"}, constants, slot_kernel.WARPS
        )
        assert len(compiled.asm["cubin"]) > 0
        assert compiled.metadata.shared < 57 * 1024  # four programs at a time
