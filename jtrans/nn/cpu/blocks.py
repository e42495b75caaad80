"""Training on a CPU in blocks of positions that stay in its cache.

A pre-norm block ``x + noise * f(LN(x))`` treats positions (attention: lines of positions) one by
one. Done for all positions at once, every step of it writes a tensor to main memory and the next
one reads it back; done for some thousand positions at a time, all that is in between stays in
the cache, and only what the backward pass needs is written. Attention, normalised vectors and,
if wanted, the hidden layer are computed again there, in the cache as well.

`FeedForward` and `MultiHeadAttention` have such a form beside the plain one; the tests hold the
two together. A GPU gets there another way: by `torch.compile` and a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

ROWS = 4096  # positions of a block: smaller ones cost more in waking threads than they save

WIDE = 256  # from this width on products are most of the work, in bf16, too

Part = tuple[slice, slice]  # of the first two axes


class LayerNorm(NamedTuple):
    """The values of a layer norm."""

    gamma: Tensor
    beta: Tensor
    eps: float

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise `x`, [..., E]; return the result, the means and the inverse deviations."""
        return torch.native_layer_norm(x, [x.shape[-1]], self.gamma, self.beta, self.eps)

    def gradients(
        self, gradient: Tensor, x: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `x`, gamma and beta."""
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_layer_norm_backward(
            gradient, x, [x.shape[-1]], mean, rstd, self.gamma, self.beta, [True, True, True]
        )
        return found


def is_blockwise(x: Tensor, *, saves_memory: bool = False) -> bool:
    """Say whether blocks on `x` are done in this way.

    On a CPU, with a gradient. In bf16 products are so fast that in narrow models computing again
    costs 10 to 30 % of the time (measured at widths 128 and 64), so there only where memory is to
    be saved.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu" or not torch.is_grad_enabled():
        return False
    return saves_memory or product_dtype(x) == x.dtype or x.shape[-1] >= WIDE


def parts(shape: torch.Size) -> Iterator[Part]:
    """Cut [B, A, ..., E] along its first two axes into parts of about `ROWS` vectors.

    A is cut only where one sentence has more vectors than that.
    """
    B, A = shape[:2]
    line = max(1, shape[2:-1].numel())  # vectors below one index of the second axis
    if A * line > ROWS:
        count = max(1, ROWS // line)
        for b in range(B):
            for a in range(0, A, count):
                yield slice(b, b + 1), slice(a, a + count)
    else:
        count = ROWS // max(1, A * line)
        for b in range(0, B, count):
            yield slice(b, b + count), slice(None)


def reduce_in_parts(
    reduce: Callable[[Tensor, Tensor | None], Tensor], x: Tensor, table: Tensor | None
) -> Tensor:
    """Return `reduce(x, table)`, computed part by part and once more in the backward pass.

    Args:
        reduce: takes a part of x, [b, a, L, E], and of the table to [b, a, E]; has no dropout.
        x: [B, A, L, E].
        table: cut as x is, see `narrow`.
    """
    found = [
        checkpoint(
            reduce, x[part], narrow(table, part), use_reentrant=False, preserve_rng_state=False
        )
        for part in parts(x.shape)
    ]
    joined = torch.cat([one.reshape(-1, one.shape[-1]) for one in found])
    return joined.view(*x.shape[:2], -1)


def narrow(table: Tensor | None, part: Part) -> Tensor | None:
    """Take the part of a table that broadcasts to the tensor cut: axes of size 1 stay whole."""
    if table is None:
        return None
    for axis, span in enumerate(part):
        if table.shape[axis] > 1:
            table = table[(slice(None),) * axis + (span,)]
    return table


def rows(x: Tensor) -> Tensor:
    """View [..., E] as a matrix [N, E]."""
    return x.view(-1, x.shape[-1])


def product_dtype(x: Tensor) -> torch.dtype:
    """Return the type in which matrix products are to be computed now."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def as_type(table: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return a table in another type: mixing types in a product costs a copy each time."""
    return None if table is None else table.to(dtype)


def add_dropped(x: Tensor, y: Tensor, noise: Tensor | None, out: Tensor) -> None:
    """Write ``x + noise * y`` into `out`; `y` is overwritten when it has another type."""
    if noise is None:
        torch.add(x, y, out=out)
    elif x.dtype == y.dtype:
        torch.addcmul(x, y, noise, out=out)
    else:
        torch.add(x, y.mul_(noise), out=out)


def dropped_gradient(gradient: Tensor, noise: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the gradient of y in ``x + noise * y`` as rows of a type, [N, E]."""
    gradient = gradient.to(dtype)
    return rows(gradient if noise is None else gradient * noise)
