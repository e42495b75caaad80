"""The Triton kernels, run by Triton's interpreter and compiled for a GPU that is not here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from nn.gpu.conftest import Interpret, compile_for_hopper
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from jtrans.nn.gpu import by_matmul
from jtrans.nn.gpu.by_matmul import Weighting

pytest.importorskip("triton")

HEADS = 2
SEED = torch.tensor(2**40 + 7)
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the norm of the difference
LENGTHS = (1, 2, 15, 16, 17, 31, 33, 64, 65, 127, 128)


class Launches:
    """Stands for a kernel and for `torch.cuda.device`: notes the device of each launch."""

    def __init__(self) -> None:
        self.current = torch.device("cuda:0")
        self.seen: list[torch.device] = []

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        return lambda *_, **__: self.seen.append(self.current)

    @contextlib.contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        before, self.current = self.current, device
        yield
        self.current = before


@pytest.mark.parametrize("name", ["cuda:0", "cuda:1"])
def test_kernels_are_launched_on_the_device_of_their_tensors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.nn.gpu import short_axis

    launches = Launches()
    monkeypatch.setattr(short_axis, "_forward_kernel", launches)
    monkeypatch.setattr(short_axis, "_backward_kernel", launches)
    monkeypatch.setattr(torch.cuda, "device", launches.device)
    with FakeTensorMode():
        qkv = torch.empty(3, 2, 5, HEADS, 9, 16, device=name)
        out = short_axis.forward(qkv, Weighting(causal=True))
        short_axis.backward(out, qkv, Weighting(causal=True))
    assert launches.seen == [torch.device(name)] * 2
    assert launches.current == torch.device("cuda:0")


def view(
    length: int, axis: int, dtype: torch.dtype, *, head_width: int = 32, lines: int = 3
) -> Tensor:
    """Return [3, B, A, H, L, D] as a view of one tensor [B, T, S, 3E]."""
    shape = (length, lines) if axis == 1 else (lines, length)
    x = torch.randn(2, *shape, 3 * HEADS * head_width).to(dtype)
    return x.view(2, *shape, 3, HEADS, head_width).movedim(-3, 0).movedim(axis + 1, -2)


def key_bias(length: int) -> Tensor:
    bias = torch.zeros(2, length)
    bias[1, max(1, length - 3) :] = float("-inf")
    return bias


def check(interpreter: Interpret, qkv: Tensor, bias: Tensor | None, **changes: Any) -> None:
    """Compare result and gradient with products in float64; the dropout mask is the same."""
    tile = {"tile": changes.pop("tile")} if "tile" in changes else {}
    weighting = Weighting(bias, SEED if changes.get("rate") else None, **changes)
    out = interpreter("short_axis.forward", qkv, weighting, **tile)
    expected = by_matmul.forward(qkv.double(), weighting)
    gradient = torch.randn_like(out)
    of_qkv = interpreter("short_axis.backward", gradient, qkv, weighting, **tile)
    of_expected = by_matmul.backward(gradient.double(), qkv.double(), weighting)
    for ours, theirs in ((out, expected), (of_qkv, of_expected)):
        assert ours.dtype == qkv.dtype and ours.stride() == theirs.stride()
        distance = (ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-3)
        assert distance < TOLERANCE[qkv.dtype]  # false for nan


@pytest.mark.sample(4)
@pytest.mark.parametrize("length", LENGTHS)
def test_target_attention_of_any_length_is_exact(interpreter: Interpret, length: int) -> None:
    check(interpreter, view(length, 1, torch.float32), None, causal=True)


@pytest.mark.sample(4)
@pytest.mark.parametrize("length", LENGTHS)
def test_source_attention_of_any_length_is_exact(interpreter: Interpret, length: int) -> None:
    check(interpreter, view(length, 2, torch.float32), key_bias(length))


@pytest.mark.sample(4)
@pytest.mark.parametrize("length", [9, 25, 49, 100])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("shares_mask", [True, False])
def test_the_mask_is_that_of_the_other_devices_both_ways(
    interpreter: Interpret, length: int, axis: int, shares_mask: bool
) -> None:
    qkv = view(length, axis, torch.float32)
    check(interpreter, qkv, None, causal=axis == 1, rate=0.3, shares_mask=shares_mask)


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", [7, 30, 60, 120])
def test_bfloat16_stays_within_its_rounding(interpreter: Interpret, length: int) -> None:
    check(interpreter, view(length, 1, torch.bfloat16), None, causal=True, rate=0.1)
    check(interpreter, view(length, 2, torch.bfloat16), key_bias(length))


@pytest.mark.parametrize("head_width", [8, 24, 48, 128])
def test_heads_of_any_width_up_to_128_are_exact(interpreter: Interpret, head_width: int) -> None:
    check(interpreter, view(20, 1, torch.float32, head_width=head_width), None, causal=True)


def test_queries_may_be_scaled_already(interpreter: Interpret) -> None:
    qkv = view(20, 2, torch.float32)
    check(interpreter, qkv, key_bias(20), is_scaled=True, rate=0.1)
    scaled = torch.stack([qkv[0] * qkv.shape[-1] ** -0.5, qkv[1], qkv[2]])
    ours = interpreter("short_axis.forward", scaled, Weighting(is_scaled=True))
    torch.testing.assert_close(ours, by_matmul.forward(qkv, Weighting()))


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [(16, 1, 1), (16, 2, 1), (16, 4, 1), (32, 2, 1)])
def test_a_program_may_do_several_lines(interpreter: Interpret, tile: tuple[int, ...]) -> None:
    qkv = view(13, 2, torch.float32, lines=5)  # ten lines: the last program has too few
    check(interpreter, qkv, key_bias(13), causal=True, rate=0.2, tile=tile)


def test_separate_tensors_and_other_orders_in_memory_are_read_in_place(
    interpreter: Interpret,
) -> None:
    stacked = torch.randn(3, 2, 3, 17, HEADS, 32)  # three tensors [B, T, S, E]
    check(interpreter, stacked.transpose(3, 4), None)
    time_first = torch.randn(17, 3, 2, 3, HEADS, 32)  # [T, S, B, 3, H, D], as the original has it
    check(interpreter, time_first.permute(3, 2, 1, 4, 0, 5), None, causal=True)


def test_the_gradient_of_a_sum_needs_no_dense_tensor(interpreter: Interpret) -> None:
    qkv = view(6, 1, torch.float32)
    ones = torch.ones(()).expand(qkv.shape[1:])
    ours = interpreter("short_axis.backward", ones, qkv, Weighting(causal=True))
    theirs = by_matmul.backward(ones, qkv, Weighting(causal=True))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="nothing is compiled by it")
@pytest.mark.parametrize(
    "slot", [16, *(pytest.param(n, marks=pytest.mark.slow) for n in (32, 64, 128))]
)
def test_the_usual_tiles_compile_for_hopper(
    slot: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for kernel in ("_forward_kernel", "_backward_kernel"):
        compiled = compiled_tile(kernel, slot)
        assert len(compiled.asm["cubin"]) > 0
        assert compiled.metadata.shared < 114 * 1024  # two programs at a time


def compiled_tile(name: str, slot: int) -> Any:
    from jtrans.nn.gpu import short_axis

    tile = short_axis.tile_for(slot)
    constants = {
        "WIDTH": 64, "BLOCK_D": 64, "SLOT": tile.slot, "LINES": tile.lines, "CAUSAL": True,
        "HAS_BIAS": True, "HAS_DROPOUT": True, "THRESHOLD": 1 << 20, "KEPT": 1.25, "SHARED": True,
    }  # fmt: skip
    pointers = dict.fromkeys(("gradient", "q", "k", "v", "out", "dq", "dk", "dv"), "*bf16")
    types = {**pointers, "bias": "*fp32", "seed": "*i64", "scale": "fp32"}
    return compile_for_hopper(getattr(short_axis, name), types, constants, tile.warps)
