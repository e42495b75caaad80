"""Additive attention with several heads (docs/systems.md 7.4).

    K = memory W_k + b_k        q = query W_q + b_q         each cut into H heads of D features
    e = v . tanh(K U + q R)     A = softmax(e)              U, R, v are shared by all heads
    context = concat_h(Drop(A) K)

The projected K are keys and values at the same time, and there is no output projection.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import record
from jtrans.nn.softmax import mask_bias, softmax


class AdditiveKeys(NamedTuple):
    """The projected source that attention reads, float32 at least."""

    values: Tensor  # K, [B, H, S, D]
    keys: Tensor  # K U, [B, H, S, D]
    bias: Tensor  # 0 on real positions, -inf on padding, [B, S]

    def select(self, sentences: Tensor) -> AdditiveKeys:
        """Return the keys of the sentences given by index, [B']."""
        return AdditiveKeys(*(each.index_select(0, sentences) for each in self))


class AdditiveAttention(nn.Module):
    """Additive attention of queries, one per target position, to the source.

    Args:
        memory_width: features of the source states.
        width: N, features of queries and contexts.
        heads: H, a divisor of N.
        dropout: dropout rate of the attention weights.
    """

    def __init__(self, memory_width: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = SharedDropout(dropout)
        D = width // heads
        self.key = nn.Linear(memory_width, width)
        self.query = nn.Linear(width, width)
        self.key_map = nn.Parameter(torch.empty(D, D))  # U
        self.query_map = nn.Parameter(torch.empty(D, D))  # R
        self.score = nn.Parameter(torch.empty(D))  # v
        for linear in (self.key, self.query):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        for parameter in (self.key_map, self.query_map, self.score):
            nn.init.normal_(parameter, std=D**-0.5)

    def keys(self, memory: Tensor, mask: Tensor) -> AdditiveKeys:
        """Project the source states, once for all queries.

        Args:
            memory: [B, S, E].
            mask: True on real tokens, [B, S].
        """
        values = self.key(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        dtype = torch.promote_types(values.dtype, torch.float32)
        keys = values @ self.key_map
        bias = mask_bias(mask, dtype)
        return AdditiveKeys(values.to(dtype).contiguous(), keys.to(dtype), bias)

    def query_projection(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the map from a query to q R: [N, N] and [N]."""
        weight, bias = self.query.weight.t(), self.query.bias
        heads = (self.heads, -1)
        maps = (part.unflatten(-1, heads) @ self.query_map for part in (weight, bias))
        mapped_weight, mapped_bias = (part.flatten(-2) for part in maps)
        return mapped_weight, mapped_bias

    def forward(self, query: Tensor, source: AdditiveKeys) -> Tensor:
        """Return the contexts of queries, [B, L, N] -> [B, L, N]."""
        queries = self.query(query).unflatten(-1, (self.heads, -1)) @ self.query_map  # [B, L, H, D]
        queries = queries.transpose(1, 2).unsqueeze(3).to(source.keys.dtype)  # [B, H, L, 1, D]
        with torch.autocast(query.device.type, enabled=False):
            tanh = torch.tanh(source.keys.unsqueeze(2) + queries)  # [B, H, L, S, D]
            scores = tanh @ self.score.to(tanh.dtype) + source.bias[:, None, None]  # [B, H, L, S]
            weights = softmax(scores, -1)
            record(self, weights)
            context = self.dropout(weights) @ source.values  # [B, H, L, D]
        return context.transpose(1, 2).flatten(-2)  # type: ignore[no-any-return]
