"""The same access to weights that are sharded over ranks and to weights that are not.

A sharded weight is a `DTensor`. Importing that class takes seconds, so no module does for runs that
are not sharded. All functions accept any tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Return whether this rank holds a shard of a tensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor; if it is sharded, all ranks must call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """Return what this rank holds of a tensor."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def like(tensor: Tensor, value: Tensor) -> Tensor:
    """Return this rank's part of a whole `value`, on the device of `tensor` and sharded as it is.

    The ranks do not communicate, so all must pass the same value.
    """
    if not is_sharded(tensor):
        return value.to(tensor.device)
    from torch.distributed.tensor import distribute_tensor

    moved = value.to(tensor.device)
    return distribute_tensor(moved, tensor.device_mesh, tensor.placements, src_data_rank=None)


def assign(tensor: Tensor, value: Tensor) -> None:
    """Copy a whole `value` into a tensor, or this rank's part of it."""
    tensor.copy_(like(tensor, value))
