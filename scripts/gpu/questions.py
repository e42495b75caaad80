"""Section 3 of `check.py`: library facts that speed depends on, one question at a time."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from jtrans.nn.device import wait_for
from jtrans.nn.gpu import operator
from jtrans.nn.gpu.by_matmul import Weighting
from scripts.gpu.timing import Row, Scale, seconds

LENGTHS = (16, 25, 32, 49, 64)
TILES = {  # slot: lines and warps of a program worth trying
    16: ((1, 1), (2, 1), (2, 2), (4, 4)),
    32: ((1, 1), (1, 2), (2, 4)),
    64: ((1, 2), (1, 4)),
    128: ((1, 4), (1, 8)),
}
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "products": SDPBackend.MATH,
}


def _grid(length: int, axis: int, scale: Scale) -> Tensor:
    """Return a projected grid [B, T, S, 3E] whose lines along `axis` are `length` long."""
    E = scale.widths[0]
    other = 3 if scale.is_tiny else 25
    # several times the size of a cache
    B = 1 if scale.is_tiny else 8 * scale.positions // (length * other)
    shape = (length, other) if axis == 1 else (other, length)
    return torch.randn(B, *shape, 3 * E, device=scale.device).bfloat16()


def attention(scale: Scale) -> list[Row]:
    """Question 1: the time of SDPA on both views and of the kernel, per copy of 8E + 16E bytes."""
    rows = []
    for length in (5,) if scale.is_tiny else LENGTHS:
        for axis, name in ((1, "target"), (2, "source")):
            x = _grid(length, axis, scale)
            H = x.shape[-1] // 3 // scale.head_width
            floor = _floor_seconds(x, scale)
            views = _views(x, H, axis)
            row: Row = {"axis": name, "L": length, "24E copy us": 1e6 * floor}
            for backend, kind in BACKENDS.items():
                work = _with_gradient(
                    views,
                    functools.partial(_attend, is_causal=axis == 1),
                )
                row[backend] = _times_floor(work, kind, floor, scale)
            projected = x.requires_grad_()

            def kernel(x: Tensor, axis: int = axis, heads: int = H) -> Tensor:
                return operator.short_axis_attention(x, heads, axis=axis, causal=axis == 1)

            row["kernel"] = seconds(_with_gradient([projected], kernel), scale) / floor
            rows.append(row)
    return rows


def _floor_seconds(x: Tensor, scale: Scale) -> float:
    """Return the time to move 24E bytes a position: 6 copies, each reads and writes 2E."""
    source = x.new_empty(x.numel() // 3).normal_()
    target = torch.empty_like(source)
    return 6 * seconds(lambda: target.copy_(source), scale)


def _views(x: Tensor, heads: int, axis: int) -> list[Tensor]:
    """Return queries, keys and values as separate tensors, viewed as SDPA takes them."""
    views = []
    for part in x.chunk(3, dim=-1):
        dense = part.contiguous().unflatten(-1, (heads, -1))  # [B, T, S, H, D]
        if axis == 1:  # [B, S H, T, D]
            view = dense.flatten(2, 3).transpose(1, 2)
        else:  # [B T, H, S, D]
            view = dense.flatten(0, 1).transpose(1, 2)
        views.append(view.detach().requires_grad_())
    return views


def _attend(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def _with_gradient(inputs: list[Tensor], f: Callable[..., Tensor]) -> Callable[[], object]:
    gradient = torch.randn_like(f(*inputs))

    def work() -> object:
        return torch.autograd.grad(f(*inputs), inputs, gradient)

    return work


def _times_floor(
    work: Callable[[], object], kind: SDPBackend, floor: float, scale: Scale
) -> float | str:
    try:
        with sdpa_kernel(kind):
            return seconds(work, scale, calls=20) / floor
    except RuntimeError as error:  # this backend does not take these views
        wait_for(scale.device)
        return str(error).splitlines()[0][:40]


def tiles(scale: Scale) -> list[Row]:
    """Time both passes of the kernels with other tiles, relative to the copy."""
    if not operator.HAS_TRITON:
        return [{"tile": "Triton is not installed"}]
    from jtrans.nn.gpu import short_axis

    rows = []
    for slot, choices in TILES.items():
        length = max(1, slot - 7 if slot > 16 else slot)
        x = _grid(3 if scale.is_tiny else length, 1, scale)
        heads = x.shape[-1] // 3 // scale.head_width
        qkv = x.view(*x.shape[:-1], 3, heads, -1).movedim(-3, 0).movedim(2, -2)
        gradient = torch.randn_like(qkv[0])
        floor = _floor_seconds(x, scale)
        for lines, warps in choices[:1] if scale.is_tiny else choices:
            weighting = Weighting(causal=True)
            tile = short_axis.Tile(slot, lines, warps)

            def work(tile: short_axis.Tile = tile, qkv: Tensor = qkv, g: Tensor = gradient) -> None:
                short_axis.forward(qkv, weighting, tile=tile)  # noqa: B023
                short_axis.backward(g, qkv, weighting, tile=tile)  # noqa: B023

            ratio = seconds(work, scale) / floor
            is_usual = tile in short_axis.TILES
            rows.append({"L": qkv.shape[4], "tile": str(tile), "x copy": ratio, "usual": is_usual})
    return rows


def products(scale: Scale) -> list[Row]:
    """Question 2: rates of the layer's matrix products; [N, 3E] against a batch [3, N, E]."""
    N = 64 if scale.is_tiny else 131_072
    rows = []
    for E in scale.widths:
        x = torch.randn(N, E, device=scale.device).bfloat16()
        for width in (E, 3 * E, 4 * E):
            w = torch.randn(width, E, device=scale.device).bfloat16()
            rate = 2 * N * E * width / seconds(functools.partial(F.linear, x, w), scale)
            rows.append({"product": f"[{N:,}, {E}] x [{E}, {width}]", "TFLOP/s": rate / 1e12})
        w = torch.randn(3, E, E, device=scale.device).bfloat16()
        spread = x.expand(3, N, E)
        rate = 6 * N * E * E / seconds(functools.partial(torch.bmm, spread, w), scale)
        rows.append({"product": f"3 x [{N:,}, {E}] x [{E}, {E}]", "TFLOP/s": rate / 1e12})
    return rows


def graphs(scale: Scale) -> list[Row]:
    """Question 3: time per node of a captured graph of 75 small kernels, and of the top-k."""
    x = torch.randn(5, 25, scale.widths[0], device=scale.device)
    nodes = 75

    def small() -> None:
        for _ in range(nodes):
            x.mul_(1.0001)

    rows = [{"what": "75 small kernels, eager", "us each": 1e6 * seconds(small, scale) / nodes}]
    if scale.device.type == "cuda":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            small()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            small()
        each = 1e6 * seconds(graph.replay, scale) / nodes
        rows.append({"what": "the same, captured in a graph", "us each": each})
    for size in (1, 64):
        scores = torch.randn(size * 5, scale.vocabulary, device=scale.device)
        spent = seconds(functools.partial(scores.topk, 10), scale)
        rows.append({"what": f"top 10 of {size * 5} x {scale.vocabulary}", "us each": 1e6 * spent})
    return rows


def functions() -> list[Row]:
    """Question 5: which functions this torch has."""
    rows: list[Row] = [{"function": "torch", "there": torch.__version__}]
    for name in (
        "torch.nn.functional.linear_cross_entropy",
        "torch.nn.attention.varlen.varlen_attn",
        "torch.nn.attention.flex_attention.flex_attention",
    ):
        module, _, attribute = name.rpartition(".")
        is_there = False
        with contextlib.suppress(ImportError):
            is_there = hasattr(importlib.import_module(module), attribute)
        rows.append({"function": name, "there": is_there})
    return rows
