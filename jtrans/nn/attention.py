"""Multi-head self-attention and cross-attention (docs/systems.md 0.4)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.cpu.linear import Linear, linear
from jtrans.nn.cpu.short_products import in_float32_if_few
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.memory import require_memory
from jtrans.nn.recorder import record
from jtrans.nn.softmax import causal_bias, softmax


class MultiHeadAttention(nn.Module):
    """Self-attention: concat_h(softmax(Q K^T / sqrt(D)) V) W_o + b_o, H heads of D = E/H features.

    Attends along one axis of [..., E], separately for each index of the other axes.

    Args:
        width: E.
        heads: H, a divisor of E.
        dropout: dropout of the attention weights [..., H, L, L].
        axis: the axis attended along.
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout, *, axis: int = -2) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.axis = axis
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))  # W_q, W_k, W_v
        self.in_bias = nn.Parameter(torch.zeros(3 * width))
        self.out = Linear(width, width)
        nn.init.xavier_uniform_(self.in_weight)  # as a whole: bound sqrt(6 / (E + 3E))
        nn.init.xavier_uniform_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        x: Tensor,
        *,
        bias: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend from every position of `x` to the positions of `x`, or of the cache.

        Args:
            x: [..., L, ..., E], L at the attended axis; the result has the same shape.
            bias: 0 or -inf, broadcasts to [..., H, L, L].
            causal: position l attends to 0..l only.
            cache: keys and values of earlier positions, in slots. `x` then holds the next position
                of each hypothesis of a sentence (L = beam). Each gets a slot of its own, and `bias`
                is 0 on the slots that it attends to.
        """
        projected = linear(x, self.in_weight, self.in_bias)  # x W_q + b_q, ..., [..., 3E]
        q, k, v = (split_heads(part, self.heads, self.axis) for part in projected.chunk(3, dim=-1))
        if cache is not None:
            k, v = cache.append(k, v)
        weights = attention_weights(q, k, bias=bias, causal=causal)  # A, [..., H, L, L]
        record(self, weights)
        mixed = mix(self.dropout(weights), v)  # Drop(A) V, [..., H, L, D]
        return self.out(join_heads(mixed, self.axis))  # type: ignore[no-any-return]


class CrossAttention(nn.Module):
    """Attention from one sequence to the keys and values of another.

    Queries are projected by one matrix, [E, E], keys and values by another, [2E, E], so that the
    keys and values of a source sentence are computed once for all queries.

    Args:
        width: E.
        heads: H, a divisor of E.
        dropout: dropout of the attention weights [B, H, Lq, Lk].
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.out = Linear(width, width)
        weight = nn.init.xavier_uniform_(torch.empty(3 * width, width))  # as one matrix [3E, E]
        with torch.no_grad():
            self.query.weight.copy_(weight[:width])
            self.key_value.weight.copy_(weight[width:])
        nn.init.xavier_uniform_(self.out.weight)
        for each in (self.query, self.key_value, self.out):
            nn.init.zeros_(each.bias)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of `memory`, [B, L, E] -> two [B, H, L, D]."""
        k, v = self.key_value(memory).chunk(2, dim=-1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None) -> Tensor:
        """Attend from `x` to the given keys and values.

        Args:
            x: vectors to project to queries, [B, Lq, E]; the result has the same shape.
            k: keys, [B, H, Lk, D].
            v: values, [B, H, Lk, D].
            bias: 0 or -inf, broadcasts to [B, H, Lq, Lk].
        """
        q = split_heads(self.query(x), self.heads)  # [B, H, Lq, D]
        weights = attention_weights(q, k, bias=bias)  # A, [B, H, Lq, Lk]
        record(self, weights)
        mixed = mix(self.dropout(weights), v)  # Drop(A) V, [B, H, Lq, D]
        return self.out(join_heads(mixed))  # type: ignore[no-any-return]


def attention_weights(q: Tensor, k: Tensor, *, bias: Tensor | None, causal: bool = False) -> Tensor:
    """Return A = softmax(Q K^T / sqrt(D)), [..., H, Lq, Lk] (docs/systems.md 0.4).

    Args:
        q: queries, [..., H, Lq, D], may be a strided view.
        k: keys, [..., H, Lk, D].
        bias: 0 or -inf, broadcasts to [..., H, Lq, Lk]. Every query keeps a key: a row that is
            -inf throughout would be nan.
        causal: query l attends to keys 0..l only.
    """
    *lines, Lq, D = q.shape
    queries, keys = (x.reshape(-1, x.shape[-2], D) for x in (q, k))
    size = 2 * 4 * queries.shape[0] * Lq * k.shape[-2]  # scores and weights at the same time
    require_memory(size, q.device, "attention weights")
    with in_float32_if_few(queries, keys) as (queries, keys):
        unread = queries.new_empty(1, 1, 1)  # beta is 0
        scores = torch.baddbmm(
            unread, queries, keys.transpose(1, 2), beta=0.0, alpha=D**-0.5
        )  # Q K^T / sqrt(D)
    scores = scores.view(*lines, Lq, k.shape[-2])
    if bias is not None:  # in place, on a view, it would cost autograd two copies
        scores = scores + bias
    if causal and Lq > 1:
        scores = scores + causal_bias(Lq, scores.device)
    return softmax(scores, -1)


def mix(weights: Tensor, v: Tensor) -> Tensor:
    """Return A V, the weighted sums of values, [..., H, Lq, D].

    Args:
        weights: after dropout, [..., H, Lq, Lk], contiguous.
        v: values, [..., H, Lk, D], may be a strided view.
    """
    *lines, Lq, Lk = weights.shape
    values = v.reshape(-1, Lk, v.shape[-1])
    with in_float32_if_few(values, weights.view(-1, Lq, Lk)) as (values, flat):
        out = torch.bmm(flat.to(values.dtype), values)  # [lines, Lq, D]
    return out.to(v.dtype).view(*lines, Lq, -1)


def split_heads(x: Tensor, heads: int, axis: int = -2) -> Tensor:
    """View [..., L, ..., E], attended along `axis` of length L, as [..., H, L, D]."""
    # axes are counted from the left, as exporters misread negative ones
    return x.view(*x.shape[:-1], heads, -1).movedim(axis % x.dim(), x.dim() - 1)


def join_heads(mixed: Tensor, axis: int = -2) -> Tensor:
    """Undo `split_heads`: put the heads side by side, [..., H, L, D] -> [..., L, ..., E]."""
    return mixed.movedim(mixed.dim() - 2, axis % (mixed.dim() - 1)).flatten(-2)
