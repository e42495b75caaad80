"""Attention of a search step as torch operators: a kernel on a GPU, matrix products elsewhere.

The kernel is one launch instead of five to eight. `slot_attention` writes the keys and values of
the new positions of a captured step and mixes the values of each hypothesis's prefix;
`source_attention` mixes those of the source.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.gpu.by_matmul import output_like
from jtrans.nn.gpu.operator import is_supported


def _read_and_write(qkv: Tensor, held: Tensor, bias: Tensor, new: Tensor) -> Tensor:
    """Compute the operator with matrix products."""
    _, B, A, H, beam, D = qkv.shape
    slots = held.shape[-2]
    held.index_copy_(-2, new, qkv[1:].to(held.dtype))
    keys, values = held.view(2, -1, slots, D).unbind(0)
    queries = qkv[0].reshape(-1, beam, D).to(held.dtype)
    scores = torch.bmm(queries, keys.mT).view(B, A * H, beam, slots)
    scores += bias.view(B, 1, beam, slots)
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, -1, dtype=precise).to(held.dtype)
    mixed = torch.bmm(weights.flatten(0, 1), values)
    return output_like(qkv).copy_(mixed.view(B, A, H, beam, D))


slot_attention = torch.library.custom_op(
    "jtrans::slot_attention",
    _read_and_write,
    mutates_args=("held",),
    schema="(Tensor qkv, Tensor(a!) held, Tensor bias, Tensor new) -> Tensor",
)
slot_attention.__doc__ = """Write new keys and values into their slots, and attend to the prefixes.

Args:
    qkv: queries, scaled by 1/sqrt(D), and the new keys and values of each hypothesis, of B
        sentences with A lines each, [3, B, A, H, beam, D], may be a strided view.
    held: keys and values by slot, [2, B, A, H, slots, D], contiguous; new ones are written here.
    bias: 0 on the slots of a hypothesis's prefix, -inf on others, [B * beam, slots].
    new: consecutive slots to write, one for each hypothesis, [beam]; none after them is read.

Returns:
    [B, A, H, beam, D], with the memory layout of the queries.
"""


@slot_attention.register_kernel("cuda")
def _(qkv: Tensor, held: Tensor, bias: Tensor, new: Tensor) -> Tensor:
    if not is_supported(held, length=1, head_width=qkv.shape[-1]):
        return _read_and_write(qkv, held, bias, new)
    from jtrans.nn.gpu import slot_kernel

    return slot_kernel.read_and_write(qkv, held, bias, new)


@slot_attention.register_fake
def _(qkv: Tensor, held: Tensor, bias: Tensor, new: Tensor) -> Tensor:
    return output_like(qkv)


def _read(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the operator with matrix products."""
    scores = q.to(keys.dtype) @ keys
    if bias is not None:
        scores += bias[:, None, None]
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, -1, dtype=precise).to(values.dtype)
    return _like(q).copy_(weights @ values)


def _like(q: Tensor) -> Tensor:
    """Return an empty result [B, H, n, D] whose heads lie side by side."""
    B, H, n, D = q.shape
    return q.new_empty(B, n, H, D).transpose(1, 2)


source_attention = torch.library.custom_op(
    "jtrans::source_attention",
    _read,
    mutates_args=(),
    schema="(Tensor q, Tensor keys, Tensor values, Tensor? bias) -> Tensor",
)
source_attention.__doc__ = """Mix the values of the source for each hypothesis.

Args:
    q: queries, scaled by 1/sqrt(D), [B, H, n, D], may be a strided view.
    keys: [B, H, D, S], contiguous.
    values: [B, H, S, D], contiguous.
    bias: 0 on real source positions, -inf on padding to their right, [B, S]; None without padding.

Returns:
    [B, H, n, D]; heads lie side by side in memory.
"""


@source_attention.register_kernel("cuda")
def _(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    if not is_supported(keys, length=1, head_width=q.shape[-1]):
        return _read(q, keys, values, bias)
    from jtrans.nn.gpu import slot_kernel

    return slot_kernel.read(q, keys, values, bias)


@source_attention.register_fake
def _(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    return _like(q)
