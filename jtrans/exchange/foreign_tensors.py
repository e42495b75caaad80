"""Checks of tensors from an untrusted file.

A tensor's shape is only a claim: with strides of 0 or without data, a file of a kilobyte can hold a
tensor of terabytes. The checks of `plain_tensors` need no memory; together, tensors that pass them
are at most `MOST_NAMES` times as large as their data.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from jtrans.errors import CheckpointError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# buffers of fairseq, without their part before the first dot: no parameters
_BUFFERS = ("version", "embed_positions._float_tensor", "embed_positions.weights")
# the most names of one matrix in legitimate checkpoints: both embeddings and the output
MOST_NAMES = 3
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """Return a value of any size as a short text for a message."""
    try:
        return _short.repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"{type(value).__name__} of absurd size"


def plain_tensors(model: Mapping[Any, Any], where: str) -> dict[str, Tensor]:
    """Return the parameters of a checkpoint, which must be dense and of floating-point numbers.

    Args:
        model: the tensors by name.
        where: the name of the file, for messages.

    Raises:
        CheckpointError: a value is not a tensor, not a plain one, or claims more data than it has.
    """
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.items():
        if isinstance(name, str) and name.partition(".")[2] in _BUFFERS:
            continue
        problem = _problem(tensor) if isinstance(name, str) else "is not the name of a tensor"
        if problem:
            raise CheckpointError(f"{shown(name)} {problem}", where=where, kind="checkpoint.format")
        tensors[name] = tensor
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in tensors.values()
    }
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if claimed > MOST_NAMES * sum(storages.values()):
        raise CheckpointError(
            f"{len(tensors):,} tensors of {claimed:,} bytes share {sum(storages.values()):,} bytes",
            where=where,
            kind="checkpoint.format",
        )
    return tensors


def _problem(tensor: object) -> str | None:
    if not isinstance(tensor, Tensor):
        return "is not a tensor"
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.is_nested:
        return f"is a tensor of an unknown kind ({type(tensor).__name__})"
    if tensor.layout != torch.strided:
        return f"is not a dense tensor (layout {tensor.layout})"
    if tensor.device.type != "cpu":
        return f"has no data (a tensor on the device {tensor.device})"
    if tensor.dtype not in FLOATS:
        return (
            f"is a tensor of {str(tensor.dtype).removeprefix('torch.')}; supported are "
            "float16, bfloat16, float32 and float64"
        )
    data = tensor.untyped_storage().nbytes()
    if tensor.numel() * tensor.element_size() > data:
        return (
            f"has the shape {shown(list(tensor.shape))}, {tensor.numel():,} numbers, "
            f"but only {data:,} bytes of data"
        )
    return None


def as_float32(name: str, tensor: Tensor, where: str) -> Tensor:
    """Return a tensor in float32.

    Raises:
        CheckpointError: a value is not finite.
    """
    tensor = tensor.detach().float()
    if not tensor.isfinite().all():
        raise CheckpointError(
            f"{shown(name)} has values that are not finite: it is damaged, or training diverged",
            where=where,
            kind="checkpoint.damaged",
        )
    return tensor
