"""Training on a CPU in blocks of positions that stay in its cache.

A pre-norm block ``x + mask * f(LN(x))``, with the mask of its dropout, processes positions (in
attention, lines of positions) independently. For all positions at once, every operation would
write a tensor to main memory and the next one read it back. For some thousand positions at a time,
all intermediate results stay in the cache, and only what the backward pass needs is written. The
backward pass recomputes normalised vectors and, to save memory, attention weights and hidden
layers, in the cache as well; in bf16, unless memory is saved, normalised vectors are kept.

On a GPU `torch.compile` and kernels serve the same purpose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

ROWS = 4096  # positions of a block: smaller blocks cost more in waking threads than they save

Part = tuple[slice, slice]  # along the first two axes


class Inner(Protocol):
    """The function f in one forward or backward pass, called for a part of its input at a time."""

    dtype: torch.dtype  # type of products
    keeps: bool  # whether the forward pass saves tensors that the backward pass could recompute
    # tensors of each part, appended by the forward pass and removed by the backward pass
    saved: deque[Tensor]

    @property
    def gradients(self) -> tuple[Tensor, ...]:
        """The gradients of the weights, summed over the parts so far."""

    def forward(self, y: Tensor, part: Part) -> Tensor:
        """Return f(y) of a part as rows, [b, a, ..., E] -> [n, E]."""

    def backward(self, y: Tensor, gradient: Tensor, part: Part) -> Tensor:
        """Return the gradient of `y` as rows, [n, E], and add up the gradients of the weights.

        Args:
            y: the normalised part, [b, a, ..., E].
            gradient: rows of the gradient of f(y), [n, E].
            part: the part.
        """


# makes an Inner from the type of products and the tensors given to `residual_in_blocks`
MakeInner = Callable[..., Inner]


def residual_in_blocks(
    make_inner: MakeInner,
    x: Tensor,
    norm: nn.LayerNorm | None,
    mask: Tensor | None,
    *tensors: Tensor | None,
    scale: float = 1.0,
) -> Tensor:
    """Return ``(x + mask * f(LN(x))) * scale``, with the shape and strides of `x`.

    Args:
        make_inner: returns f for the type of products and `tensors`.
        x: [B, A, ..., E], may be a strided view.
        norm: the layer norm; None without one.
        mask: dropout mask of the result, broadcasts to `x`.
        tensors: the tensors of f: its weights, then tensors without a gradient.
        scale: factor of the sum.
    """
    settings = (
        (scale, 0.0, None, None) if norm is None else (scale, norm.eps, norm.weight, norm.bias)
    )
    wrapped: Tensor = _Residual.apply(  # type: ignore[no-untyped-call]
        make_inner, torch.is_grad_enabled(), *settings, x, mask, *tensors
    )
    return wrapped


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        make_inner: MakeInner,
        is_training: bool,
        scale: float,
        eps: float,
        gamma: Tensor | None,
        beta: Tensor | None,
        x: Tensor,
        mask: Tensor | None,
        *tensors: Tensor | None,
    ) -> Tensor:
        dtype, norm = product_dtype(x), _Norm(gamma, beta, eps)
        mask = as_type(mask, dtype)
        result = torch.empty_like(x)  # with the same strides
        with torch.autocast("cpu", enabled=False):
            inner = make_inner(dtype, *tensors)
            for part in parts(x.shape):
                x_part = x[part].contiguous()
                y, mean, rstd = norm(x_part)
                y = y.to(dtype)
                if keeps_norm(inner, x, norm):
                    inner.saved += (y, mean, rstd)
                out = inner.forward(y, part).view_as(x_part)
                _add_dropped(x_part, out, narrow(mask, part), result[part])
                if scale != 1.0:
                    result[part].mul_(scale)
                if not is_training:
                    inner.saved.clear()
        ctx.save_for_backward(x, gamma, beta, mask, *tensors, *inner.saved)
        ctx.make_inner, ctx.scale, ctx.eps, ctx.dtype = make_inner, scale, eps, dtype
        ctx.tensors = len(tensors)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, beta, mask, *others = ctx.saved_tensors
        tensors, saved = others[: ctx.tensors], others[ctx.tensors :]
        dtype, norm = ctx.dtype, _Norm(gamma, beta, ctx.eps)
        gradient, dx = gradients[0], torch.empty_like(x)
        d_norm = [None if weight is None else torch.zeros_like(weight) for weight in (gamma, beta)]
        inner = ctx.make_inner(dtype, *tensors)
        inner.saved.extend(saved)
        del others, saved
        for part in parts(x.shape):
            x_part, g_part = x[part].contiguous(), gradient[part].contiguous()
            if ctx.scale != 1.0:
                g_part = g_part * ctx.scale
            if keeps_norm(inner, x, norm):
                y, mean, rstd = (inner.saved.popleft() for _ in range(3))
            else:
                y, mean, rstd = norm(x_part)
                y = y.to(dtype)
            d_out = _dropped(g_part.to(dtype), narrow(mask, part))
            dy = inner.backward(y, rows(d_out), part)
            dy = dy.to(x.dtype).view_as(x_part)
            d_part, *d_norm_part = norm.gradients(dy, x_part, mean, rstd)
            torch.add(d_part, g_part, out=dx[part])
            for total, part_gradient in zip(d_norm, d_norm_part, strict=True):
                if total is not None and part_gradient is not None:
                    total += part_gradient
        constants = [None] * (len(tensors) - len(inner.gradients))
        return None, None, None, None, *d_norm, dx, None, *inner.gradients, *constants


def keeps_norm(inner: Inner, x: Tensor, norm: _Norm) -> bool:
    """Return whether normalised vectors are kept: in bf16 they take half the memory of `x`."""
    return inner.keeps and inner.dtype != x.dtype and norm.gamma is not None


class _Norm(NamedTuple):
    """The parameters of a layer norm; without gamma it is the identity."""

    gamma: Tensor | None
    beta: Tensor | None
    eps: float

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise `x`, [..., E]; return the result, the means and the inverse deviations."""
        if self.gamma is None:
            return x, x, x
        return torch.native_layer_norm(x, [x.shape[-1]], self.gamma, self.beta, self.eps)

    def gradients(
        self, gradient: Tensor, x: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the gradients of `x`, gamma and beta."""
        if self.gamma is None:
            return gradient, None, None
        return torch.ops.aten.native_layer_norm_backward(  # type: ignore[no-any-return]
            gradient, x, [x.shape[-1]], mean, rstd, self.gamma, self.beta, [True, True, True]
        )


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


def narrow(table: Tensor | None, part: Part) -> Tensor | None:
    """Cut a table so that it broadcasts to this part of the tensor: axes of size 1 stay whole."""
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
    """Return the type of matrix products in the current context."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):  # meta has no autocast
        return x.dtype
    return torch.get_autocast_dtype(kind)


def as_type(table: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Convert a table to a type: mixing types in a product would copy it every time."""
    return None if table is None else table.to(dtype)


def _dropped(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


def _add_dropped(x: Tensor, y: Tensor, mask: Tensor | None, out: Tensor) -> None:
    """Write ``x + mask * y`` into `out`; `y` is overwritten when it has another type."""
    if mask is None:
        torch.add(x, y, out=out)
    elif x.dtype == y.dtype:
        torch.addcmul(x, y, mask, out=out)
    else:
        torch.add(x, y.mul_(mask), out=out)
