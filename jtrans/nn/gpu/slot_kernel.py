"""A Triton kernel of a step's attention, of hypotheses to their prefixes or to the source.

A program computes one head of one line (a sentence, or a source position of it) for all hypotheses
of the sentence. It reads all slots in blocks with a running softmax. For a prefix it first writes
the new keys and values, and reads only slots of earlier steps: a hypothesis's new position never
leaves the registers, so nothing has to wait for what was just written.

This module imports Triton; `slot_attention.py` imports it when a GPU is used.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from jtrans.nn.gpu.by_matmul import output_like
from jtrans.nn.gpu.short_axis import on_device_of, product

BLOCK = 64  # slots read at a time
WARPS = 4
_LEAST_ROWS = 16  # the smallest side of a factor of a product
_VARYING = ["slots", "per_sentence", "heads", "line_stride"]  # no kernel for each value


@triton.jit(do_not_specialize=_VARYING)  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    q, k, v, keys, values, bias, new, out,
    slots, per_sentence, heads, line_stride,
    x_b, x_a, x_h, x_l, o_b, o_a, o_h, o_l, k_s, k_d, bias_b, bias_l,
    BEAM: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, WRITES: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    sentence = line // per_sentence
    row, feature = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    is_row, is_feature = row < BEAM, (feature < WIDTH)[None, :]
    is_here = is_row[:, None] & is_feature
    x = sentence.to(tl.int64) * x_b + (line % per_sentence).to(tl.int64) * x_a + head * x_h
    x = x + row.to(tl.int64)[:, None] * x_l + feature[None, :]
    held = (line.to(tl.int64) * heads + head) * line_stride
    kept = keys.dtype.element_ty
    queries = tl.load(q + x, mask=is_here, other=0.0).to(kept)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.full([ROWS], 0.0, tl.float32)
    mixed = tl.full([ROWS, BLOCK_D], 0.0, tl.float32)
    end = slots.to(tl.int64)
    if WRITES:
        own_keys = tl.load(k + x, mask=is_here, other=0.0).to(kept)
        own_values = tl.load(v + x, mask=is_here, other=0.0).to(kept)
        end = tl.load(new)
        written = held + (end + row)[:, None] * WIDTH + feature[None, :]
        tl.store(keys + written, own_keys, mask=is_here)
        tl.store(values + written, own_values, mask=is_here)
        best = tl.sum(queries.to(tl.float32) * own_keys.to(tl.float32), 1)  # of the new slots
        total += 1.0
        mixed = own_values.to(tl.float32)
    bias_row = bias + sentence.to(tl.int64) * bias_b + row.to(tl.int64)[:, None] * bias_l
    start = end * 0
    while start < end:
        slot = start + tl.arange(0, BLOCK)
        is_old = slot < end
        is_held = is_old[:, None] & is_feature
        read = held + slot[:, None] * k_s + feature[None, :] * k_d
        old_keys = tl.load(keys + read, mask=is_held, other=0.0)
        scores = product(queries, tl.trans(old_keys))
        is_read = is_row[:, None] & is_old[None, :]
        if HAS_BIAS:
            scores += tl.load(bias_row + slot[None, :], mask=is_read, other=float("-inf"))
        else:
            scores = tl.where(is_read, scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp(best - higher)
        weights = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        read = held + slot[:, None] * WIDTH + feature[None, :]
        old_values = tl.load(values + read, mask=is_held, other=0.0)
        mixed = mixed * shrink[:, None] + product(weights.to(kept), old_values)
        best = higher
        start += BLOCK
    y = sentence.to(tl.int64) * o_b + (line % per_sentence).to(tl.int64) * o_a + head * o_h
    y = y + row.to(tl.int64)[:, None] * o_l + feature[None, :]
    tl.store(out + y, (mixed / total[:, None]).to(out.dtype.element_ty), mask=is_here)


def read_and_write(qkv: Tensor, held: Tensor, bias: Tensor, new: Tensor) -> Tensor:
    """Compute `slot_attention.slot_attention`; the last axis of `qkv` is contiguous."""
    out, beam = output_like(qkv), qkv.shape[4]
    q, k, v = qkv.unbind(0)
    keys, values = held.unbind(0)
    _launch(
        (q, k, v, keys, values, bias, new, out),
        key_strides=(held.shape[-1], 1),
        bias_strides=(beam * bias.stride(0), bias.stride(0)),
        writes=True,
    )
    return out


def read(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Compute `slot_attention.source_attention`; the last axis of `q` is contiguous."""
    out = q.new_empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3]).transpose(1, 2)
    q_lines, out_lines = q.unsqueeze(1), out.unsqueeze(1)  # [B, 1, H, n, D]
    _launch(
        (q_lines, q_lines, q_lines, keys, values, bias, q, out_lines),  # k, v and new: any pointer
        key_strides=(1, keys.shape[-1]),
        bias_strides=(0 if bias is None else bias.stride(0), 0),
        writes=False,
    )
    return out


def _launch(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor],
    *,
    key_strides: tuple[int, int],
    bias_strides: tuple[int, int],
    writes: bool,
) -> None:
    """Launch the kernel; tensors are in its order, queries and result [B, A, H, n, D]."""
    q, *_, values, bias, _, out = tensors
    _, A, H, beam, D = q.shape
    slots = values.shape[-2]
    with on_device_of(q):
        _kernel[(q.shape[0] * A * H,)](
            *(q if each is None else each for each in tensors),
            slots, A, H, slots * D,
            *q.stride()[:4], *out.stride()[:4], *key_strides, *bias_strides,
            BEAM=beam,
            ROWS=max(_LEAST_ROWS, triton.next_power_of_2(beam)),
            WIDTH=D,
            BLOCK_D=max(_LEAST_ROWS, triton.next_power_of_2(D)),
            BLOCK=BLOCK,
            WRITES=writes, HAS_BIAS=bias is not None,
            num_warps=WARPS, num_stages=1,
            enable_fp_fusion=True,  # the default only up to Triton 3.9
        )  # fmt: skip
