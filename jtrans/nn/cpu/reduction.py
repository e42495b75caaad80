"""``reduction(LN(x))`` in blocks of positions (see `jtrans.nn.cpu.blocks`)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jtrans.nn.cpu.blocks import parts


def reduction_in_blocks(
    reduction: nn.Module, x: Tensor, norm: nn.Module | None, source_bias: Tensor | None
) -> Tensor:
    """Return the Reduction of LN(x), part by part, recomputed in the backward pass.

    Args:
        reduction: maps a part of x, [b, t, S, E], and its bias to [b, t, E]; has no dropout.
        x: [B, T, S, E].
        norm: the layer norm before it, if there is one.
        source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
    """

    def reduce(x: Tensor, bias: Tensor | None) -> Tensor:
        return reduction(x if norm is None else norm(x), bias)  # type: ignore[no-any-return]

    reduced = []
    for part in parts(x.shape):
        bias = None if source_bias is None else source_bias[part[0]]
        reduced.append(
            checkpoint(reduce, x[part], bias, use_reentrant=False, preserve_rng_state=False)
        )
    joined = torch.cat([r.reshape(-1, r.shape[-1]) for r in reduced])
    return joined.view(*x.shape[:2], -1)
