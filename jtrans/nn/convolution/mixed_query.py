"""The queries of the mixed block: a matrix per head that summarises a sentence or a prefix.

    alpha[s, c] = exp(q[s, c]) / sum_{s' in N(t)} exp(q[s', c])      for each channel c
    Query_t     = sum_{s in N(t)} alpha[s, :]^T v[s, :]              [D, D] for each head

N(t) are all real positions in the encoder, and positions 0..t in the decoder
(docs/systems.md 6.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from jtrans.nn.softmax import causal_bias, softmax

# The factors of `_mix_by_product` are at most exp(40): their squares are in the range of float32.
WIDEST_RANGE = 80.0
CHUNK = 8  # positions


def sentence_query(scores: Tensor, values: Tensor, heads: int, bias: Tensor | None) -> Tensor:
    """Return the queries of whole sentences, [B, H, D, D].

    Args:
        scores: q, [B, L, C].
        values: v, [B, L, C].
        heads: H; C = H D.
        bias: 0 on real positions, -inf on padding, [B, L].
    """
    alpha = sentence_weights(scores, bias).to(values.dtype)  # [B, L, C]
    return by_head(alpha, heads).transpose(-2, -1) @ by_head(values, heads)


def sentence_weights(scores: Tensor, bias: Tensor | None) -> Tensor:
    """Return alpha of whole sentences, [B, L, C]."""
    return softmax(scores if bias is None else scores + bias[..., None], 1)


def prefix_weights(scores: Tensor) -> Tensor:
    """Return alpha of every prefix, for analysis, [B, L, C] -> [B, L (t), L (s), C]."""
    bias = causal_bias(scores.shape[1], scores.device)[..., None]
    return softmax(scores[:, None] + bias, 2)


def prefix_mix(local: Tensor, scores: Tensor, values: Tensor, heads: int) -> Tensor:
    """Return ``local[t] Query_t`` with the queries of all prefixes, [B, L, C].

    No query is computed: with P[t, s] the sum over a head's channels of ``local[t] alpha_t[s]``,
    the result is P v. There are two forms of this and a recurrent one, `PrefixQuery`; all agree up
    to rounding.

    Args:
        local: [B, L, C].
        scores: q, [B, L, C].
        values: v, [B, L, C].
        heads: H; C = H D.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scores.device.type == "cpu" and not torch.compiler.is_compiling():
        first, highest = scores.detach()[:, :1], scores.detach().amax(1, keepdim=True)
        if float((highest - first).max()) <= WIDEST_RANGE:
            return _mix_by_product(local, scores - 0.5 * (first + highest), values, heads)
    return _mix_in_chunks(local, scores, values, heads)


def _mix_by_product(local: Tensor, scores: Tensor, values: Tensor, heads: int) -> Tensor:
    """Compute `prefix_mix`; a weight is the product of a factor that depends on t and one on s.

    The first score of a channel and its highest one bound its normalisers from below and above:
    the two must be close enough for the normalisers to have finite inverses.
    """
    powers = scores.exp()  # [B, L, C]
    share = by_head(local / powers.cumsum(1), heads)  # [B, H, L, D]
    weights = (share @ by_head(powers, heads).transpose(-2, -1)).tril()  # P, [B, H, L, L]
    return from_heads(weights.to(values.dtype) @ by_head(values, heads))


def _mix_in_chunks(local: Tensor, scores: Tensor, values: Tensor, heads: int) -> Tensor:
    """Compute `prefix_mix` for scores of any range: no exponent is positive.

    Positions before a chunk are summarised by a query, as in the recurrent form, relative to their
    highest scores; within a chunk the weights of each position are computed one by one.
    """
    highest = scores.detach().cummax(1).values
    q, top, v, local = (_chunks(x) for x in (scores, highest, values, local))
    own_bias = causal_bias(CHUNK, q.device)[..., None]
    within = (q[:, :, None] - top[:, :, :, None] + own_bias).exp()  # [B, J, I (t), I (s), C]
    query, total = _queries_before(q, top[:, :, -1], v, heads)  # [B, J, H, D, D], [B, J, C]
    before = torch.cat([top[:, :1, -1], top[:, :-1, -1]], dim=1)  # highest before a chunk
    decay = (before[:, :, None] - top).clamp(max=0.0).exp()  # [B, J, I, C]
    share = local / (within.sum(3) + decay * total[:, :, None])
    weights = (within * share[:, :, :, None]).unflatten(-1, (heads, -1)).sum(-1)  # [B, J, I, I, H]
    mixed = weights.movedim(-1, 2).to(v.dtype) @ by_head(v, heads)  # [B, J, H, I, D]
    mixed = mixed + by_head(share * decay, heads).to(v.dtype) @ query.to(v.dtype)
    return from_heads(mixed).flatten(1, 2)[:, : scores.shape[1]]


def _chunks(x: Tensor) -> Tensor:
    """Cut sentences into chunks, [B, L, C] -> [B, J, I, C].

    The padding on the right, which is never read, repeats the last position. The last chunk is all
    padding: the compiler would compile a form of its own for a single chunk.
    """
    L = x.shape[1]
    chunks = (L + 2 * CHUNK - 1) // CHUNK
    position = torch.arange(chunks * CHUNK, device=x.device).clamp(max=L - 1)
    return x.index_select(1, position).view(len(x), chunks, CHUNK, -1)


def _queries_before(q: Tensor, top: Tensor, v: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Summarise the positions before each chunk, relative to the highest scores before it.

    Args:
        q: [B, J, I, C].
        top: the highest scores up to the end of each chunk, [B, J, C].
        v: [B, J, I, C].
        heads: H.

    Returns:
        Queries that are not yet normalised, [B, J, H, D, D], and their normalisers, [B, J, C].
    """
    J = q.shape[1]
    powers = (q - top[:, :, None]).exp()  # [B, J, I, C]
    sums = by_head(powers, heads).transpose(-2, -1).to(v.dtype) @ by_head(v, heads)
    is_before = torch.ones(J, J, dtype=torch.bool, device=q.device).tril(-1)  # [J, J (earlier)]
    before = torch.cat([top[:, :1], top[:, :-1]], dim=1)
    distance = (top[:, None] - before[:, :, None]).masked_fill(~is_before[..., None], -torch.inf)
    decay = distance.exp()  # [B, J, J (earlier), C]
    queries = torch.einsum("bjic,bice->bjce", decay, sums.flatten(2, 3).to(decay.dtype))
    totals = torch.einsum("bjic,bic->bjc", decay, powers.sum(2))
    return queries.unflatten(2, (heads, -1)), totals


@dataclass
class PrefixQuery:
    """The recurrent form: the query of one prefix per hypothesis, of constant size."""

    highest: Tensor  # the highest score so far, m, [..., C]
    query: Tensor  # relative to it and not normalised, N, [..., H, D, D]
    total: Tensor  # the normaliser, Z, [..., C]

    @classmethod
    def empty(cls, like: Tensor, heads: int) -> Self:
        """Return the query of empty prefixes; `like` is [..., C]."""
        *lines, C = like.shape
        dtype = torch.promote_types(like.dtype, torch.float32)
        zero = like.new_zeros(*lines, C, dtype=dtype)
        query = like.new_zeros(*lines, heads, C // heads, C // heads, dtype=dtype)
        return cls(torch.full_like(zero, -torch.inf), query, zero)

    def add(self, scores: Tensor, values: Tensor) -> None:
        """Add a position, two tensors [..., C]."""
        scores, values = scores.to(self.total.dtype), values.to(self.total.dtype)
        highest = torch.maximum(self.highest, scores)  # m' = max(m, q)
        decay, power = (self.highest - highest).exp(), (scores - highest).exp()
        shape = self.query.shape[:-1]  # [..., H, D]
        product = power.view(*shape, 1) * values.view(*shape[:-1], 1, -1)  # e^(q-m') v^T
        self.query = torch.addcmul(product, decay.view(*shape, 1), self.query)
        self.total = decay * self.total + power
        self.highest = highest

    def mix(self, local: Tensor) -> Tensor:
        """Return ``local Query``, [..., C] -> [..., C]."""
        share = (local / self.total).view(*self.query.shape[:-2], 1, -1)  # [..., H, 1, D]
        return (share @ self.query).flatten(-3).to(local.dtype)


def by_head(x: Tensor, heads: int) -> Tensor:
    """View [..., L, C] as [..., H, L, D]."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)  # type: ignore[no-any-return]


def from_heads(x: Tensor) -> Tensor:
    """Undo `by_head`, [..., H, L, D] -> [..., L, C]."""
    return x.transpose(-3, -2).flatten(-2)
