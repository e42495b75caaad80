"""Batches of small products in bf16, which training on a CPU computes in float32.

oneDNN generates code for every new shape of a product, which takes 1.4 ms in attention
over 15 positions. MKL generates nothing, and computes 280 lines of them in float32, more exactly,
in the time that oneDNN takes in bf16 (60 us each; both directions of 15 x 15 x 32).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

FEW = 2**24  # from this many multiplications on, generating code for each shape costs less


@contextlib.contextmanager
def in_float32_if_few(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield both factors of a batch of products, in float32 if small and trained on a CPU in bf16.

    Args:
        x: [n, L, D]; its type is that of the product.
        y: the other factor, [n, M, D] or [n, M, L].
    """
    is_few = (
        x.dtype == torch.bfloat16
        and x.device.type == "cpu"
        and torch.is_grad_enabled()
        and x.numel() * y.shape[1] <= FEW
        and not torch.compiler.is_compiling()
    )
    if not is_few:
        yield x, y
        return
    with torch.autocast("cpu", enabled=False):
        yield x.float(), y.float()
