"""Cross-entropy of a linear output layer on a CPU, in blocks of tokens that stay in its cache.

The logits of thousands of tokens, [N, V], are hundreds of megabytes, which a dozen operations would
write to main memory and read back. Here the forward pass turns the logits of a block into their
gradient, in place, and adds it to the gradients of hidden states and weights at once; the backward
pass only scales these.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jtrans.nn.cpu import products
from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.device import precise

LOGITS = 2**22  # logits of a block, 16 MB


def output_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the smoothed and the unsmoothed cross-entropy of ``x W^T + b``, sums over rows, [].

    Only the smoothed loss has a gradient (docs/systems.md 0.6, form "all").

    Args:
        hidden: rows x, [N, E].
        weight: W, [V, E].
        bias: b, [V].
        labels: reference tokens, [N].
        smoothing: the probability taken from the reference token.
    """
    loss, nll = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, smoothing, torch.is_grad_enabled()
    )
    return loss, nll


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        eps: float,
        is_training: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = product_dtype(hidden)
        x, w = hidden.to(dtype), weight.to(dtype)
        b = None if bias is None else bias.to(dtype)
        d_hidden, d_weight, d_bias = (
            torch.zeros_like(each) if each is not None and is_training and needs else None
            for each, needs in zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)
        )
        losses = precise(hidden.new_zeros(2))
        with torch.autocast("cpu", enabled=False):
            for first in range(0, len(x), rows := block_rows(*w.shape)):
                part = slice(first, first + rows)
                scores = precise(products.linear(x[part], w, b))  # [n, V]
                losses += _replace_by_gradient(scores, labels[part, None], eps)
                gradient = scores.to(dtype)
                if d_hidden is not None:
                    d_hidden[part] = products.product(gradient, w)
                if d_weight is not None:
                    d_weight += products.sum_of_products(gradient, x[part], d_weight.dtype)
                if d_bias is not None:
                    d_bias += scores.sum(0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        loss, nll = losses[0].clone(), losses[1].clone()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (
            None if each is None else each * gradients[0].to(each.dtype)
            for each in ctx.saved_tensors
        )
        return *scaled, None, None, None


def block_rows(vocabulary: int, width: int) -> int:
    """Return the number of tokens in a block.

    Every block updates the gradient of the weights, [V, E], which is a small part of its work only
    if it has about E / 2 rows or more.
    """
    return max(LOGITS // vocabulary, width // 2, 1)


def _replace_by_gradient(scores: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Turn logits into the gradient of the smoothed loss; return both losses, [2].

    Args:
        scores: logits, [n, V]; overwritten.
        labels: reference tokens, [n, 1].
        eps: the probability taken from them.
    """
    V = scores.shape[-1]
    reference, mean = scores.gather(-1, labels), scores.mean(-1, keepdim=True)
    highest = scores.amax(-1, keepdim=True)
    total = scores.sub_(highest).exp_().sum(-1, keepdim=True)
    normaliser = total.log() + highest
    scores.mul_(total.reciprocal()).sub_(eps / V)
    scores.scatter_add_(-1, labels, scores.new_full((1, 1), eps - 1.0).expand_as(labels))
    nll, uniform = (normaliser - reference).sum(), (normaliser - mean).sum()
    return torch.stack([(1.0 - eps) * nll + eps * uniform, nll])
