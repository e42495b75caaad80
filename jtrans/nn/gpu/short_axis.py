"""Triton kernels of attention along a short axis (forward and backward), on strided views.

A line (one sequence that attends to itself) of up to 128 positions fits one tile, so a program
computes the whole softmax of one line and head, or of a few lines when they are very short, and
nothing is stored between the passes: the backward pass recomputes the weights. Positions of
a line may lie any distance apart in memory. Along either axis of the joint grid a head's slice of
a position is one cache line, so reading with a stride costs no bandwidth.

This module imports Triton; `operator.py` imports it when a GPU is used.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from jtrans.nn.gpu.by_matmul import Weighting, output_like
from jtrans.nn.gpu.dropout_mask import BITS, KEYS, ROUNDS, threshold

_ROUNDS = tl.constexpr(ROUNDS)
_KEYS = tl.constexpr(KEYS)
_UNUSED_BITS = tl.constexpr(32 - BITS)
# the interpreter computes with numpy, which has no bfloat16
_IS_INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
_VARYING = ["lines", "per_sentence", "heads", "length", "bias_stride"]  # no kernel for each value


@dataclass(frozen=True)
class Tile:
    """The shape of a program's tile."""

    slot: int  # rows of a line in the tile, the longest line that fits
    lines: int  # lines of a program
    warps: int  # warps of a program


# the largest tiles that compile for Hopper without spilled registers, backward pass included
TILES = (Tile(16, 2, 2), Tile(32, 1, 2), Tile(64, 1, 4), Tile(128, 1, 8))


def tile_for(length: int) -> Tile:
    """Return the smallest tile that holds lines of a length, at most 128."""
    return next(tile for tile in TILES if length <= tile.slot)


@triton.jit  # type: ignore[untyped-decorator]
def _rows(group, per_sentence, SLOT: tl.constexpr, LINES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return each row's position, line, sentence, and line within the sentence."""
    row = tl.arange(0, SLOT * LINES)
    line = group * LINES + row // SLOT
    return row % SLOT, line, line // per_sentence, line % per_sentence


@triton.jit  # type: ignore[untyped-decorator]
def _offsets(sentence, within, position, head, s_b, s_a, s_h, s_l, BLOCK_D: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the offsets of the rows' features, [rows, BLOCK_D]; 64 bits, as grids are large."""
    row = sentence.to(tl.int64) * s_b + within.to(tl.int64) * s_a + position.to(tl.int64) * s_l
    return (row + head.to(tl.int64) * s_h)[:, None] + tl.arange(0, BLOCK_D)[None, :]


@triton.jit
def product(a, b):  # type: ignore[no-untyped-def]
    """Return a b in float32; float32 factors are multiplied in three tf32 products."""
    if _IS_INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32))
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit  # type: ignore[untyped-decorator]
def _weights(  # type: ignore[no-untyped-def]
    q, k, bias, position, line, sentence, lines, length, bias_stride, scale,
    LINES: tl.constexpr, CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """Return softmax(q k^T / sqrt(D)), float32."""
    scores = product(q, tl.trans(k)) * scale
    if HAS_BIAS:
        is_real = (position < length) & (line < lines)
        offsets = sentence.to(tl.int64) * bias_stride + position
        scores += tl.load(bias + offsets, mask=is_real, other=0.0)[None, :]
    is_seen = (position < length)[None, :] & (position >= 0)[:, None]
    if LINES > 1:
        is_seen = is_seen & (line[:, None] == line[None, :])
    if CAUSAL:
        is_seen = is_seen & (position[None, :] <= position[:, None])
    scores = tl.where(is_seen, scores, float("-inf"))  # every row keeps a key, padded rows too
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _dropout_mask(seed, table, position, THRESHOLD: tl.constexpr, KEPT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the mask of `dropout_mask.weights_mask`: 0 or KEPT."""
    counter = position[:, None] * _KEYS + position[None, :]
    word, _, _, _ = tl.philox(tl.load(seed), counter, table[:, None] + counter * 0, 0, 0, _ROUNDS)
    draw = (word >> _UNUSED_BITS).to(tl.int32)
    return tl.where(draw >= THRESHOLD, KEPT, 0.0)


@triton.jit(do_not_specialize=_VARYING)  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, out, bias, seed,
    lines, per_sentence, heads, length,
    x_b, x_a, x_h, x_l, o_b, o_a, o_h, o_l, bias_stride, scale,
    WIDTH: tl.constexpr, BLOCK_D: tl.constexpr, SLOT: tl.constexpr, LINES: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr,
    THRESHOLD: tl.constexpr, KEPT: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0) % heads
    position, line, sentence, within = _rows(tl.program_id(0) // heads, per_sentence, SLOT, LINES)
    is_here = ((position < length) & (line < lines))[:, None]
    is_here = is_here & (tl.arange(0, BLOCK_D) < WIDTH)[None, :]
    offsets = _offsets(sentence, within, position, head, x_b, x_a, x_h, x_l, BLOCK_D)
    weights = _weights(
        tl.load(q + offsets, mask=is_here, other=0.0),
        tl.load(k + offsets, mask=is_here, other=0.0),
        bias, position, line, sentence, lines, length, bias_stride, scale,
        LINES, CAUSAL, HAS_BIAS,
    )  # fmt: skip
    if HAS_DROPOUT:
        table = (sentence if SHARED else line) * heads + head
        weights *= _dropout_mask(seed, table, position, THRESHOLD, KEPT)
    values = tl.load(v + offsets, mask=is_here, other=0.0)
    mixed = product(weights.to(values.dtype), values)
    offsets = _offsets(sentence, within, position, head, o_b, o_a, o_h, o_l, BLOCK_D)
    tl.store(out + offsets, mixed.to(out.dtype.element_ty), mask=is_here)


@triton.jit(do_not_specialize=_VARYING)  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    gradient, q, k, v, dq, dk, dv, bias, seed,
    lines, per_sentence, heads, length,
    g_b, g_a, g_h, g_l, x_b, x_a, x_h, x_l, d_b, d_a, d_h, d_l, bias_stride, scale,
    WIDTH: tl.constexpr, BLOCK_D: tl.constexpr, SLOT: tl.constexpr, LINES: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr,
    THRESHOLD: tl.constexpr, KEPT: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0) % heads
    position, line, sentence, within = _rows(tl.program_id(0) // heads, per_sentence, SLOT, LINES)
    is_here = ((position < length) & (line < lines))[:, None]
    is_here = is_here & (tl.arange(0, BLOCK_D) < WIDTH)[None, :]
    offsets = _offsets(sentence, within, position, head, x_b, x_a, x_h, x_l, BLOCK_D)
    queries = tl.load(q + offsets, mask=is_here, other=0.0)
    keys = tl.load(k + offsets, mask=is_here, other=0.0)
    values = tl.load(v + offsets, mask=is_here, other=0.0)
    offsets = _offsets(sentence, within, position, head, g_b, g_a, g_h, g_l, BLOCK_D)
    d_out = tl.load(gradient + offsets, mask=is_here, other=0.0)  # 0 in padded rows
    weights = _weights(
        queries, keys, bias, position, line, sentence, lines, length, bias_stride, scale,
        LINES, CAUSAL, HAS_BIAS,
    )  # fmt: skip
    d_weights = product(d_out, tl.trans(values))
    dropped = weights
    if HAS_DROPOUT:
        table = (sentence if SHARED else line) * heads + head
        mask = _dropout_mask(seed, table, position, THRESHOLD, KEPT)
        d_weights *= mask
        dropped = weights * mask
    offsets = _offsets(sentence, within, position, head, d_b, d_a, d_h, d_l, BLOCK_D)
    d_values = product(tl.trans(dropped.to(values.dtype)), d_out)
    tl.store(dv + offsets, d_values.to(dv.dtype.element_ty), mask=is_here)
    mean = tl.sum(weights * d_weights, 1)
    d_scores = (weights * (d_weights - mean[:, None]) * scale).to(keys.dtype)
    d_queries = product(d_scores, keys)
    tl.store(dq + offsets, d_queries.to(dq.dtype.element_ty), mask=is_here)
    d_keys = product(tl.trans(d_scores), queries)
    tl.store(dk + offsets, d_keys.to(dk.dtype.element_ty), mask=is_here)


def forward(qkv: Tensor, weighting: Weighting, *, tile: Tile | None = None) -> Tensor:
    """Compute `by_matmul.forward`; the last axis of `qkv` is contiguous.

    Args:
        qkv: queries, keys and values, [3, B, A, H, L, D].
        weighting: the other inputs of the weights.
        tile: None for the usual one for this length.
    """
    tile = tile or tile_for(qkv.shape[4])
    q, k, v = _dense_features(qkv).unbind(0)
    out = output_like(qkv)
    with on_device_of(q):
        _forward_kernel[_grid(q, tile)](
            q, k, v, out,
            *_data(q, weighting),
            *q.stride()[:4], *out.stride()[:4], *_numbers(q, weighting),
            **_constants(q, weighting, tile),
        )  # fmt: skip
    return out


def backward(
    gradient: Tensor, qkv: Tensor, weighting: Weighting, *, tile: Tile | None = None
) -> Tensor:
    """Compute `by_matmul.backward`; the arguments are those of `forward`."""
    tile = tile or tile_for(qkv.shape[4])
    gradient = _dense_features(gradient)
    q, k, v = _dense_features(qkv).unbind(0)
    out = torch.empty_like(qkv)
    dq, dk, dv = out.unbind(0)
    with on_device_of(q):
        _backward_kernel[_grid(q, tile)](
            gradient, q, k, v, dq, dk, dv,
            *_data(q, weighting),
            *gradient.stride()[:4], *q.stride()[:4], *dq.stride()[:4], *_numbers(q, weighting),
            **_constants(q, weighting, tile),
        )  # fmt: skip
    return out


def on_device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """Return a context for launches: Triton launches on the current device, not on that of `x`."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def _dense_features(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _grid(q: Tensor, tile: Tile) -> tuple[int]:
    """Return the number of programs, on one axis (limit 2^31 - 1), heads innermost."""
    B, A, H = q.shape[:3]
    return (triton.cdiv(B * A, tile.lines) * H,)


def _data(q: Tensor, weighting: Weighting) -> tuple[Any, ...]:
    B, A, H, L, _ = q.shape
    bias, seed = weighting.key_bias, weighting.seed
    bias = q if bias is None else _dense_features(bias)  # without a bias any pointer will do
    return (bias, q if seed is None else seed, B * A, A, H, L)


def _numbers(q: Tensor, weighting: Weighting) -> tuple[int, float]:
    bias = weighting.key_bias
    return (0 if bias is None else _dense_features(bias).stride(0)), weighting.scale(q.shape[-1])


def _constants(q: Tensor, weighting: Weighting, tile: Tile) -> dict[str, Any]:
    D = q.shape[-1]
    return {
        "WIDTH": D,
        "BLOCK_D": max(16, triton.next_power_of_2(D)),
        "SLOT": tile.slot,
        "LINES": tile.lines,
        "CAUSAL": weighting.causal,
        "HAS_BIAS": weighting.key_bias is not None,
        "HAS_DROPOUT": weighting.seed is not None,
        "THRESHOLD": threshold(weighting.rate),
        "KEPT": 1.0 / (1.0 - weighting.rate),
        "SHARED": weighting.shares_mask,
        "num_warps": tile.warps,
        "num_stages": 1,
        "enable_fp_fusion": True,  # the default only up to Triton 3.9
    }
