"""Attention to the source, prepared once per sentence for all decoder layers.

For head h with queries y Wq_h^T, keys K_h, values V_h and output matrix Wo_h,

    scores_h = (y Wq_h^T) K_h^T = y (K_h Wq_h)^T
    result   = sum_h A_h V_h Wo_h^T

The matrices K_h Wq_h and V_h Wo_h^T, [S, E] each, depend on the source alone. With them a step
takes two products with E x H*S numbers per sentence in place of two with E x E and two with E x S:
that is less work while H*S < E, and few large products are faster than many small ones. For longer
sentences it is more work, so the products of the model are used.

Both leave out the key bias, as it adds the same to all scores of a query. In the merged form the
query bias becomes a bias per source position, and the output bias a part of the values, as the
weights of a head sum to 1.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from jtrans.decoding.prepared.fixed_linear import (
    FixedLinear,
    Standardise,
    fixed_linear,
    with_norm,
)
from jtrans.decoding.prepared.target import (
    at_least_read,
    attention_type,
    keep_sentences,
    weights_of,
)
from jtrans.models.base import Memory
from jtrans.nn.attention import CrossAttention
from jtrans.nn.gpu.slot_attention import source_attention
from jtrans.nn.softmax import mask_bias


class SourceState(Protocol):
    """Keys and values of all layers for the sentences of a batch."""

    def attend(self, layer: int, x: Tensor) -> Tensor:
        """Return x plus its attention to the source, [N, E]; x may be overwritten."""
        ...

    def select(self, sentences: Tensor) -> None:
        """Keep some sentences, [B'], in place."""
        ...


class SourceAttentions:
    """The weights of attention to the source of all L decoder layers.

    Args:
        attentions: one per layer.
        norms: of the queries' input; None where there is none before attention.
        products: the type of the products; with int8, and on a CPU with bf16, attention itself is
            in float32.
    """

    def __init__(
        self,
        attentions: list[CrossAttention],
        norms: list[nn.LayerNorm | None],
        products: torch.dtype,
    ) -> None:
        self.heads = H = attentions[0].heads
        E = attentions[0].out.out_features
        self.width, self.dtype = E, attention_type(products, attentions[0].out.weight.device)
        dtype = self.dtype
        scale = (E // H) ** -0.5
        key_values = [a.key_value.weight for a in attentions]  # [2E, memory]
        biases = [a.key_value.bias for a in attentions]
        no_key_bias = [torch.cat([torch.zeros_like(b[:E]), b[E:]]) for b in biases]
        self.keys_values = fixed_linear(torch.cat(key_values), torch.cat(no_key_bias), products)
        queries = [
            (a.query.weight.detach() * scale, a.query.bias.detach() * scale) for a in attentions
        ]
        self.queries = [
            fixed_linear(*query, products, norm) for query, norm in zip(queries, norms, strict=True)
        ]
        self.outs = [fixed_linear(a.out.weight, a.out.bias, products) for a in attentions]
        # for the merged form: weights by head, [L * H, D, E], and biases
        self.standardise = [Standardise(norm) if norm else None for norm in norms]
        read = [
            with_norm(*query, norm) if norm else query
            for query, norm in zip(queries, norms, strict=True)
        ]
        weights, query_biases = zip(*read, strict=True)
        outs = [a.out.weight.detach() for a in attentions]
        self.by_head = torch.stack(weights).view(len(weights) * H, -1, E).to(dtype)
        out = torch.stack(outs).view(len(outs), E, H, -1)  # [L, E, H, D]
        self.out_by_head = out.permute(0, 2, 3, 1).reshape(-1, E // H, E).to(dtype)
        self.query_bias = torch.stack(query_biases).view(-1, E // H, 1).to(dtype)  # [L * H, D, 1]
        self.out_bias = torch.stack([a.out.bias.detach() for a in attentions]).to(dtype)  # [L, E]

    def begin(self, memory: Memory, *, merges: bool = True) -> SourceState:
        """Compute the keys and values of all layers, once per sentence.

        Args:
            memory: the encoded sources.
            merges: whether matrices may be multiplied beforehand.
        """
        B, S, _ = memory.states.shape
        L, H = len(self.queries), self.heads
        projected = self.keys_values(memory.states.reshape(B * S, -1))  # [B * S, L * 2 * E]
        projected = projected.to(self.dtype)
        bias = mask_bias(memory.mask, self.dtype)
        bias, projected = at_least_read(bias, projected.view(B, S, -1))
        S = bias.shape[1]
        if merges and is_merged(B, S, H, self.width):
            parts = projected.view(B * S, L, 2, H, -1).permute(2, 1, 3, 0, 4)  # [2, L, H, B*S, D]
            keys, values = parts.reshape(2, L * H, B * S, -1).unbind(0)
            return MergedSource(self, keys, values, bias)
        parts = projected.view(B, S, L, 2, H, -1).permute(3, 2, 0, 4, 1, 5)  # [2, L, B, H, S, D]
        keys, values = parts[0].mT.contiguous(), parts[1].contiguous()
        is_padded = bias.device.type != "cpu" or bool(bias.any())
        return PlainSource(self, keys, values, bias if is_padded else None)


def is_merged(sentences: int, length: int, heads: int, width: int) -> bool:
    """Return whether products with the merged matrices are faster.

    Every step reads two matrices of H*S x E numbers for each sentence, where the products of the
    model read two of E x E numbers for all sentences. Searches for 2, 4, 8, 16 sentences of 6 to 19
    tokens took 0.87, 0.95, 1.03, 1.06 times as long with them, E 256 and H 4.
    """
    return sentences * heads * length < 2 * width


class MergedSource:
    """Matrices in which queries and keys, values and outputs are multiplied beforehand.

    Args:
        weights: the weights of all layers.
        keys: [L * H, B * S, D].
        values: [L * H, B * S, D].
        bias: 0 on real source positions, -inf on padding, [B, S].
    """

    def __init__(
        self, weights: SourceAttentions, keys: Tensor, values: Tensor, bias: Tensor
    ) -> None:
        self.heads = H = weights.heads
        self._standardise = weights.standardise
        B, S = bias.shape
        E = weights.width
        L = len(weights.queries)

        def by_sentence(x: Tensor) -> Tensor:  # [L * H, B * S, E] -> [L, B, H * S, E]
            return x.view(L, H, B, S, -1).transpose(1, 2).reshape(L, B, H * S, -1)

        self._keys = by_sentence(torch.bmm(keys, weights.by_head))
        values = torch.bmm(values, weights.out_by_head).view(L, H * B * S, E)
        self._values = by_sentence(values.add_(weights.out_bias[:, None] / H))
        added = by_sentence(torch.bmm(keys, weights.query_bias)).view(L, B, 1, H, S)
        self._bias = (added + bias[:, None, None, :]).view(L, B, 1, H * S)
        self._layers = self._by_layer()

    def attend(self, layer: int, x: Tensor) -> Tensor:
        """Return x plus its attention to the source, [N, E]; x may be overwritten."""
        bias, keys, values = self._layers[layer]
        standardise = self._standardise[layer]
        y = x if standardise is None else standardise(x)
        y = y if y.dtype == keys.dtype else y.to(keys.dtype)
        if len(keys) == 1:
            weights = self._weights(torch.addmm(bias[0], y, keys[0]))
            if x.dtype == values.dtype:
                return x.addmm_(weights, values[0])
            return x + torch.mm(weights, values[0])
        scores = torch.baddbmm(bias, y.view(len(keys), -1, y.shape[1]), keys)  # [B, beam, H * S]
        weights = self._weights(scores)
        x_ = x.view(*scores.shape[:2], -1)
        if x.dtype == values.dtype:
            return torch.baddbmm(x_, weights, values).view(x.shape)
        return x + torch.bmm(weights, values).view(x.shape)

    def _weights(self, scores: Tensor) -> Tensor:
        """Return the softmax of each head, [..., H * S]."""
        heads = scores.view(-1, self.heads, scores.shape[-1] // self.heads)
        return weights_of(heads).view(scores.shape)

    def select(self, sentences: Tensor) -> None:
        """Keep some sentences, [B'], in place."""
        self._keys, self._values, self._bias = (
            keep_sentences(x, 1, sentences) for x in (self._keys, self._values, self._bias)
        )
        self._layers = self._by_layer()

    def _by_layer(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return bias, [B, 1, H * S], keys, [B, E, H * S], and values, [B, H * S, E], by layer."""
        parts = (self._bias, self._keys.mT, self._values)
        return list(zip(*(part.unbind(0) for part in parts), strict=True))


class PlainSource:
    """Keys and values by heads.

    Args:
        weights: the weights of all layers.
        keys: [L, B, H, D, S].
        values: [L, B, H, S, D].
        bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
    """

    def __init__(
        self, weights: SourceAttentions, keys: Tensor, values: Tensor, bias: Tensor | None
    ) -> None:
        self._weights = weights
        self._queries: list[FixedLinear] = weights.queries
        self._outs: list[FixedLinear] = weights.outs
        self._keys, self._values = keys, values
        self._bias = None if bias is None else bias[:, None, None, :]  # [B, 1, 1, S]

    def attend(self, layer: int, x: Tensor) -> Tensor:
        """Return x plus its attention to the source, [N, E]; x may be overwritten."""
        _, B, H, D, S = self._keys.shape
        queries = self._queries[layer](x).view(B, -1, H, D).transpose(1, 2)
        if queries.is_cuda:
            bias = None if self._bias is None else self._bias[:, 0, 0]
            mixed = source_attention(queries, self._keys[layer], self._values[layer], bias)
            return self._outs[layer].add_to(x, mixed.transpose(1, 2).reshape(x.shape))
        queries = queries.reshape(B * H, -1, D).to(self._keys.dtype)
        scores = torch.bmm(queries, self._keys[layer].view(B * H, D, S))  # [B * H, beam, S]
        if self._bias is not None:
            scores.view(B, H, -1, S).add_(self._bias)
        mixed = torch.bmm(weights_of(scores), self._values[layer].view(B * H, S, D))
        mixed = mixed.view(B, H, -1, D).transpose(1, 2).reshape(x.shape)
        return self._outs[layer].add_to(x, mixed)

    @property
    def length(self) -> int:
        """S."""
        return self._keys.shape[-1]

    def select(self, sentences: Tensor) -> None:
        """Keep some sentences, [B'], in place."""
        self._keys, self._values = (
            keep_sentences(x, 1, sentences) for x in (self._keys, self._values)
        )
        if self._bias is not None:
            self._bias = self._bias.index_select(0, sentences)

    def keep(self, sentences: Tensor) -> None:
        """Move some sentences, [B'], to the front of these buffers, whose size does not change."""
        keep_sentences(self._keys, 1, sentences)
        keep_sentences(self._values, 1, sentences)
        if self._bias is not None:
            keep_sentences(self._bias, 0, sentences)

    def first(self, count: int) -> PlainSource:
        """Return the first sentences, without a copy."""
        bias = None if self._bias is None else self._bias[:count, 0, 0]
        return PlainSource(self._weights, self._keys[:, :count], self._values[:, :count], bias)

    def load(self, other: PlainSource) -> None:
        """Copy the sentences of `other` to the front of these buffers, which have a bias."""
        assert self._bias is not None
        B, S = other._keys.shape[1], other.length
        self._keys.zero_()[:, :B, ..., :S] = other._keys
        self._values.zero_()[:, :B, :, :S] = other._values
        self._bias.fill_(-math.inf)[:B, ..., :S] = 0.0 if other._bias is None else other._bias
