"""Attention along a short axis as a torch operator: kernels on a GPU, matrix products elsewhere.

The operator takes queries, keys and values as one strided tensor, and so gives their gradients
as one: neither splitting the output of one linear map [E, 3E] nor joining its gradient copies
anything. Compilers see one node each way.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jtrans.nn.gpu import by_matmul
from jtrans.nn.gpu.by_matmul import Weighting, output_like
from jtrans.nn.gpu.dropout_mask import KEYS, draw_seed

LONGEST = KEYS  # positions of a line


def missing_triton() -> str | None:
    """Return why the kernels cannot be used, with a remedy; None if they can.

    Triton is not imported for this. It compiles the launchers of its kernels in C.
    """
    triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        return "Triton is not installed (pip install triton)"
    if not Path(triton.origin).with_name("knobs.py").exists():
        return "Triton is older than 3.4 (pip install -U triton)"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "Triton needs a C compiler (install gcc, or name another in CC)"
    scheme = sysconfig.get_default_scheme()
    paths = sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)
    if not Path(paths["include"], "Python.h").exists():
        return f"Triton needs {paths['include']}/Python.h (install python3-dev)"
    return None


HAS_TRITON = missing_triton() is None

_WIDEST = 128  # features of a head
_TYPES = (torch.bfloat16, torch.float16, torch.float32)
_OPTIONS = (
    "Tensor qkv, Tensor? key_bias, Tensor? seed, bool causal, float rate, bool shares_mask, "
    "bool is_scaled"
)


def is_supported(x: Tensor, length: int, head_width: int) -> bool:
    """Return whether the kernels support this: a GPU with Triton, and lines of up to 128 positions.

    Args:
        x: gives device and dtype.
        length: positions of a line, L.
        head_width: D.
    """
    fits = length <= LONGEST and head_width <= _WIDEST
    return HAS_TRITON and x.is_cuda and fits and x.dtype in _TYPES


def short_axis_attention(
    projected: Tensor,
    heads: int,
    *,
    axis: int = -2,
    key_bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    shares_mask: bool = True,
    is_scaled: bool = False,
    seed: Tensor | None = None,
) -> Tensor:
    """Let every position attend to the positions of its line: multi-head self-attention.

    Args:
        projected: queries, keys and values side by side, [B, L, 3E], or on the joint grid
            [B, T, S, 3E], where lines run along `axis`.
        heads: H, a divisor of E.
        axis: the axis attended along, among the middle ones.
        key_bias: 0 on real keys, -inf on padding, [B, L]. Every query keeps a key: a row that is
            -inf throughout would be nan.
        causal: query l attends to keys 0..l only.
        dropout: probability of dropping a weight, below 1.
        shares_mask: the lines of a sentence share their dropout mask.
        is_scaled: the queries already have the factor 1/sqrt(D).
        seed: int64, [], on the device of `projected`; None draws one if it is needed.

    Returns:
        [B, L, E] or [B, T, S, E].
    """
    axis = axis % projected.dim()
    qkv = projected.view(*projected.shape[:-1], 3, heads, -1)  # [B, ..., 3, H, D]
    qkv = qkv.movedim(-3, 0).movedim(axis + 1, -2)  # [3, B, lines..., H, L, D]
    has_lines = qkv.dim() == 6
    if not has_lines:
        qkv = qkv.unsqueeze(2)
    if dropout > 0.0 and seed is None:
        seed = draw_seed(projected.device)
    mixed: Tensor = attention_operator(
        qkv, key_bias, seed if dropout > 0.0 else None, causal, dropout, shares_mask, is_scaled
    )
    if not has_lines:
        mixed = mixed.squeeze(1)
    return mixed.movedim(-2, axis).flatten(-2)


def _forward(qkv: Tensor, *weighting: Any) -> Tensor:
    return by_matmul.forward(qkv, Weighting(*weighting))


def _backward(gradient: Tensor, qkv: Tensor, *weighting: Any) -> Tensor:
    return by_matmul.backward(gradient, qkv, Weighting(*weighting))


attention_operator = torch.library.custom_op(
    "jtrans::short_axis_attention", _forward, mutates_args=(), schema=f"({_OPTIONS}) -> Tensor"
)
backward_operator = torch.library.custom_op(
    "jtrans::short_axis_attention_backward",
    _backward,
    mutates_args=(),
    schema=f"(Tensor gradient, {_OPTIONS}) -> Tensor",
)


@attention_operator.register_kernel("cuda")
def _(qkv: Tensor, *weighting: Any) -> Tensor:
    from jtrans.nn.gpu import short_axis

    return _launched(short_axis.forward, by_matmul.forward, qkv, Weighting(*weighting))


@backward_operator.register_kernel("cuda")
def _(gradient: Tensor, qkv: Tensor, *weighting: Any) -> Tensor:
    from jtrans.nn.gpu import short_axis

    weights = Weighting(*weighting)
    return _launched(short_axis.backward, by_matmul.backward, gradient, qkv, weights)


def _launched(kernel: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """Return the result of a kernel, or of matrix products if its tile is too large for the GPU.

    A tile of 128 positions and heads of 128 features takes 256 KiB of shared memory in float32,
    more than an H100 has, and 128 KiB in bfloat16, more than consumer GPUs have.
    """
    from triton.runtime.errors import OutOfResources

    try:
        return kernel(*inputs)
    except OutOfResources:  # Triton caches the failure, and raises it at once the next time
        return plain(*inputs)


@attention_operator.register_fake
def _(qkv: Tensor, *_: object) -> Tensor:
    return output_like(qkv)


@backward_operator.register_fake
def _(gradient: Tensor, qkv: Tensor, *_: object) -> Tensor:
    return torch.empty_like(qkv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, key_bias, seed, *ctx.options = inputs  # in the order of `Weighting`
    ctx.save_for_backward(qkv, key_bias, seed)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    qkv, key_bias, seed = ctx.saved_tensors
    return backward_operator(gradient, qkv, key_bias, seed, *ctx.options), *[None] * 6


attention_operator.register_autograd(_differentiate, setup_context=_save)
