"""The choice of how to compute each block: in its plain form, or in a fast one.

The plain form is the block's `forward`, its equation. Fast forms give the same up to rounding:

* `KERNELS`: by device, replacements of ``block(x)``;
* `IN_BLOCKS`: by device, replacements of a block together with the layer norm before it and the
  residual around it, for a block of positions at a time in a CPU's cache: in training, and without
  gradients on large grids, whose hidden layers and attention weights would not fit into memory.

The plain form is used for every block and device without a fast one, and always while attention is
recorded. `Residual` calls `compute` and `form_in_blocks`, joint models call `reduce`; a system that
calls a block directly gets its plain form.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jtrans.nn.attention import CrossAttention, MultiHeadAttention
from jtrans.nn.cpu import attention as cpu_attention
from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.cpu.feed_forward import feed_forward_in_blocks
from jtrans.nn.cpu.reduction import reduction_in_blocks
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.gpu import attention as gpu_attention
from jtrans.nn.recorder import is_recording
from jtrans.nn.reduction import AttentionReduction, MaxReduction
from jtrans.nn.separable import SourceAttention, TargetAttention

Form = Callable[..., Tensor]
Block = type[nn.Module]

# called as form(block, x, **arguments), with the arguments of the block's `forward`
KERNELS: dict[str, dict[Block, Form]] = {
    "cuda": {
        MultiHeadAttention: gpu_attention.self_attention,
        CrossAttention: gpu_attention.cross_attention,
        TargetAttention: gpu_attention.target_attention,
        SourceAttention: gpu_attention.source_attention,
    }
}

# called as form(block, x, norm, dropout, **arguments), or form(reduction, x, norm, source_bias)
IN_BLOCKS: dict[str, dict[Block, Form]] = {
    "cpu": {
        FeedForward: feed_forward_in_blocks,
        MultiHeadAttention: cpu_attention.self_attention_in_blocks,
        TargetAttention: cpu_attention.target_attention_in_blocks,
        SourceAttention: cpu_attention.source_attention_in_blocks,
        AttentionReduction: reduction_in_blocks,
        MaxReduction: reduction_in_blocks,
    }
}

# the blocks whose forms recompute more in the backward pass with ``keeps=False``, to save memory
_KEEPING = (FeedForward, MultiHeadAttention, TargetAttention, SourceAttention)
_NO_FORMS: dict[Block, Form] = {}
LARGE = 16_384  # from this many positions of a grid on, blocks save memory and cost no time
WIDE = 256  # from this width on, products are most of the work even in bf16

_PLAIN: ContextVar[bool] = ContextVar("plain_forms", default=False)


@contextlib.contextmanager
def plain_forms() -> Iterator[None]:
    """Let every block compute its plain form within the context; compiled code ignores this."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def compute(block: Form, x: Tensor, *, saves_memory: bool = False, **arguments: Any) -> Tensor:
    """Return ``block(x, **arguments)``.

    Args:
        block: a module, or any function.
        x: its input.
        saves_memory: recompute the hidden layer of an FFN in the backward pass.
        arguments: the further arguments of the block.
    """
    kernel = KERNELS.get(x.device.type, _NO_FORMS).get(type(block))  # type: ignore[arg-type]
    if kernel is not None and not _must_be_plain():
        return kernel(block, x, **arguments)
    if saves_memory and isinstance(block, FeedForward) and torch.is_grad_enabled():
        return checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]
    return block(x, **arguments)


def form_in_blocks(
    block: Form, x: Tensor, *, saves_memory: bool = False, has_norm: bool = True, **arguments: Any
) -> Form | None:
    """Return a function that computes a block with its residual in blocks of positions, or None.

    The function takes x, the norm and the further inputs of the form, see `IN_BLOCKS`.

    Args:
        block: as in `compute`.
        x: the running state, before the norm.
        saves_memory: choose the form in blocks even where it is slower, and let it recompute more.
        has_norm: whether there is a norm before the block, whose result is recomputed.
        arguments: the further arguments of the block.
    """
    if arguments.pop("cache", None) is not None:
        return None  # called at every step of a search: the cheapest tests come first
    if not torch.is_grad_enabled():
        if not is_large(x):
            return None
        saves_memory = True
    form = IN_BLOCKS.get(x.device.type, _NO_FORMS).get(type(block))  # type: ignore[arg-type]
    if form is None or _must_be_plain():
        return None
    if not pays_in_blocks(x, saves_memory=saves_memory, has_norm=has_norm):
        return None
    if saves_memory and isinstance(block, _KEEPING):
        arguments["keeps"] = False
    return functools.partial(form, block, **arguments)


def reduce(
    norm: nn.Module | None, reduction: nn.Module, x: Tensor, source_bias: Tensor | None
) -> Tensor:
    """Return the Reduction of LN(x), [B, T, S, E] -> [B, T, E]; of x itself without `norm`."""
    in_blocks = form_in_blocks(reduction, x)
    if in_blocks is not None:
        return in_blocks(x, norm, source_bias)
    return reduction(x if norm is None else norm(x), source_bias)  # type: ignore[no-any-return]


def pays_in_blocks(x: Tensor, *, saves_memory: bool, has_norm: bool) -> bool:
    """Return whether blocks are as fast in training as the plain form, or needed to save memory.

    In bf16 products are so fast that in narrow models many small operations cost what blocks save
    (measured at width 128: 0.86 to 1.0 times the rate of the plain form).
    """
    if torch.compiler.is_compiling():
        return False
    return saves_memory or not has_norm or product_dtype(x) == x.dtype or x.shape[-1] >= WIDE


def is_large(x: Tensor) -> bool:
    """Return whether `x` is a grid, [B, T, S, E], of many positions."""
    return x.dim() == 4 and x.shape[:-1].numel() >= LARGE


def _must_be_plain() -> bool:
    return not torch.compiler.is_compiling() and (is_recording() or _PLAIN.get())
