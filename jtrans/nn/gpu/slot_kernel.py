"""A Triton kernel of a step's attention: hypotheses read the positions of their prefixes.

A program takes one head of one line (a sentence, or a source position of it) and the hypotheses of
the sentence. It writes their new keys and values, and reads all slots written before in blocks
with a running softmax. The new position of a hypothesis never leaves its registers, so nothing
has to wait for what was just written.

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
_LEAST_ROWS = 16  # of a factor of a product
_VARYING = ["per_sentence", "heads", "line_stride"]  # no kernel for each value


@triton.jit(do_not_specialize=_VARYING)  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    q, k, v, keys, values, bias, new, out,
    per_sentence, heads, line_stride,
    x_b, x_a, x_h, x_l, o_b, o_a, o_h, o_l, bias_stride,
    BEAM: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    sentence = line // per_sentence
    row, feature = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    is_row, is_feature = row < BEAM, (feature < WIDTH)[None, :]
    is_here = is_row[:, None] & is_feature
    x = sentence.to(tl.int64) * x_b + (line % per_sentence).to(tl.int64) * x_a + head * x_h
    x = x + row.to(tl.int64)[:, None] * x_l + feature[None, :]
    held = (line.to(tl.int64) * heads + head) * line_stride + feature[None, :]
    kept = keys.dtype.element_ty
    queries = tl.load(q + x, mask=is_here, other=0.0).to(kept)
    own_keys = tl.load(k + x, mask=is_here, other=0.0).to(kept)
    own_values = tl.load(v + x, mask=is_here, other=0.0).to(kept)
    first = tl.load(new)
    written = held + (first + row)[:, None] * WIDTH
    tl.store(keys + written, own_keys, mask=is_here)
    tl.store(values + written, own_values, mask=is_here)

    best = tl.sum(queries.to(tl.float32) * own_keys.to(tl.float32), 1)  # scores of the new slots
    total = tl.full([ROWS], 1.0, tl.float32)
    mixed = own_values.to(tl.float32)
    bias_row = bias + (sentence * BEAM + row).to(tl.int64)[:, None] * bias_stride
    start = first * 0
    while start < first:
        slot = start + tl.arange(0, BLOCK)
        is_old = slot < first
        read = held + slot[:, None] * WIDTH
        is_held = is_old[:, None] & is_feature
        old_keys = tl.load(keys + read, mask=is_held, other=0.0)
        scores = product(queries, tl.trans(old_keys))
        is_read = is_row[:, None] & is_old[None, :]
        scores += tl.load(bias_row + slot[None, :], mask=is_read, other=float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp(best - higher)
        weights = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        old_values = tl.load(values + read, mask=is_held, other=0.0)
        mixed = mixed * shrink[:, None] + product(weights.to(kept), old_values)
        best = higher
        start += BLOCK
    y = sentence.to(tl.int64) * o_b + (line % per_sentence).to(tl.int64) * o_a + head * o_h
    y = y + row.to(tl.int64)[:, None] * o_l + feature[None, :]
    tl.store(out + y, (mixed / total[:, None]).to(out.dtype.element_ty), mask=is_here)


def forward(qkv: Tensor, held: Tensor, bias: Tensor, new: Tensor) -> Tensor:
    """Compute `slot_attention.slot_attention`; the last axis of `qkv` is contiguous."""
    q, k, v = qkv.unbind(0)
    B, A, H, beam, D = q.shape
    keys, values = held.unbind(0)
    out = output_like(qkv)
    with on_device_of(q):
        _kernel[(B * A * H,)](
            q, k, v, keys, values, bias, new, out,
            A, H, held.shape[-2] * D,
            *q.stride()[:4], *out.stride()[:4], bias.stride(0),
            BEAM=beam,
            ROWS=max(_LEAST_ROWS, triton.next_power_of_2(beam)),
            WIDTH=D,
            BLOCK_D=max(_LEAST_ROWS, triton.next_power_of_2(D)),
            BLOCK=BLOCK,
            num_warps=WARPS,
            num_stages=1,
        )  # fmt: skip
    return out
