"""The mixed block of Transformer++: half of the heads attend, half convolve.

See docs/systems.md 6.2 (Thapak & Hore 2020).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jtrans.nn.attention import attention_weights, join_heads, mix, split_heads
from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.convolution.mixed_kernel import LocalConvolution
from jtrans.nn.convolution.mixed_query import (
    PrefixQuery,
    by_head,
    from_heads,
    prefix_mix,
    prefix_weights,
    sentence_query,
    sentence_weights,
)
from jtrans.nn.cpu.linear import Linear, linear
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import is_recording, record


class MixedAttention(nn.Module):
    """Self-attention and convolution side by side: H/2 heads of D = E/H features each.

        self half          A_g = softmax(Q_g K_g^T / sqrt(D)) V_g
        convolution half   DynamicConv_t = LocalConv_t Query_t / sqrt(D)
        output             concat(A_1 .. A_h, DynamicConv_1 .. DynamicConv_h) W_o + b_o

    `jtrans.nn.convolution.mixed_kernel` computes LocalConv, the context of a word, and
    `mixed_query` the Query, a summary of the sentence or, in the decoder, of the prefix.

    Args:
        width: E.
        heads: H, an even divisor of E.
        dropout: dropout of the attention weights.
        local: the convolution of E/2 channels.
    """

    def __init__(
        self, width: int, heads: int, dropout: SharedDropout, local: LocalConvolution
    ) -> None:
        super().__init__()
        self.heads = heads // 2  # heads of each half
        self.dropout = dropout
        self.local = local
        # W_q, W_k, W_v of the self half, W_c, W_q, W_v of the convolution half
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.zeros(3 * width))
        self.out = Linear(width, width)
        nn.init.xavier_uniform_(self.in_weight)  # as a whole, like that of plain attention
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
        """Mix the vectors of sentences.

        Args:
            x: [B, L, E]; the result has the same shape.
            bias: 0 or -inf, [B, 1, 1, L] for padding, or [B, 1, beam, slots] with a cache.
            causal: position l reads positions 0..l only.
            cache: a `MixedCache` of earlier positions; `x` is then the next position of the
                hypotheses of each sentence, [B, beam, E].
        """
        projected = linear(x, self.in_weight, self.in_bias)  # [B, L, 3E]
        q, k, v, local, scores, values = projected.chunk(6, dim=-1)
        attended = self._attend(q, k, v, bias, causal, cache)
        if isinstance(cache, MixedCache):
            convolved = self._step(local, scores, values, cache)
        elif causal:
            if is_recording():
                weights = prefix_weights(scores).unflatten(-1, (self.heads, -1)).mean(-1)
                record((self, "query"), weights.movedim(-1, 1))  # [B, H/2, L, L]
            convolved = prefix_mix(self.local(local), scores, values, self.heads)
        else:
            padding = None if bias is None else bias.flatten(1)  # [B, L]
            convolved = self._convolve(local, scores, values, padding)
        scale = (x.shape[-1] // (2 * self.heads)) ** -0.5  # 1 / sqrt(D)
        both = torch.cat([attended, (convolved * scale).to(attended.dtype)], dim=-1)  # [B, L, E]
        return self.out(both)  # type: ignore[no-any-return]

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        causal: bool,
        cache: KeyValueCache | None,
    ) -> Tensor:
        """Return the self half, [B, L, E/2]."""
        q, k, v = (split_heads(part, self.heads) for part in (q, k, v))
        if cache is not None:
            k, v = cache.append(k, v)
        weights = attention_weights(q, k, bias=bias, causal=causal)  # A, [B, H/2, L, L]
        record(self, weights)
        return join_heads(mix(self.dropout(weights), v))

    def _convolve(
        self, local: Tensor, scores: Tensor, values: Tensor, padding: Tensor | None
    ) -> Tensor:
        """Return the convolution half of whole sentences, [B, L, E/2]."""
        if is_recording():
            weights = sentence_weights(scores, padding).unflatten(-1, (self.heads, -1)).mean(-1)
            every = weights.transpose(1, 2)[:, :, None].expand(-1, -1, scores.shape[1], -1)
            record((self, "query"), every)  # the same for all positions, [B, H/2, L, L]
        if padding is not None and self.local.ahead:
            local = local.masked_fill(padding[..., None] < 0.0, 0.0)  # kernels reach into it
        query = sentence_query(scores, values, self.heads, padding)  # [B, H/2, D, D]
        return from_heads(by_head(self.local(local), self.heads) @ query)

    def _step(self, local: Tensor, scores: Tensor, values: Tensor, cache: MixedCache) -> Tensor:
        """Return the convolution half of the next position of all hypotheses, [B, beam, E/2]."""
        past = cache.read(local, self.local.span + 1)
        if cache.query is None:
            cache.query = PrefixQuery.empty(scores, self.heads)
        cache.query.add(scores, values)
        convolved: Tensor = cache.query.mix(self.local.step(past))
        return convolved


class MixedCache(KeyValueCache):
    """The cache of a mixed block: slots for the self half, a state for the convolution half.

    The state has a constant size for each hypothesis and moves with it when the beam is reordered.
    """

    def __init__(self, checked: int = 0) -> None:
        super().__init__(checked)
        self.query: PrefixQuery | None = None
        self._past: Tensor | None = None  # the last rows of C, [B, beam, rows, E/2]

    def read(self, row: Tensor, most: int) -> Tensor:
        """Add a row of C, [B, beam, E/2], and return the last `most` rows, [B, beam, rows, E/2]."""
        rows = row[..., None, :]
        if self._past is not None:
            rows = torch.cat([self._past, rows], dim=-2)[..., -most:, :]
        self._past = rows
        return rows

    def keep_hypotheses(self, rows: Tensor) -> None:
        """Move the state to the hypotheses `rows`, [B', beam']."""

        def moved(x: Tensor) -> Tensor:
            chosen = x.flatten(0, 1).index_select(0, rows.flatten())
            return chosen.view(*rows.shape, *chosen.shape[1:])

        if self.query is not None and self._past is not None:
            self._past = moved(self._past)
            parts = self.query.highest, self.query.query, self.query.total
            self.query = PrefixQuery(*map(moved, parts))
