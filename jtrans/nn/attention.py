"""Multi-head attention (docs/systems.md 0.4), of a sequence to itself and to another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.nn.axis_attention import attention_weights, fused_attention, mix
from jtrans.nn.beam_cache import KeyValueCache
from jtrans.nn.cpu.attention import attention_in_blocks
from jtrans.nn.cpu.blocks import LayerNorm
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.gpu.operator import is_supported, short_axis_attention
from jtrans.nn.recorder import is_recording, record


class MultiHeadAttention(nn.Module):
    """Queries, keys and values from one matrix [3E, E]; H heads of D = E/H.

    Works on [..., E] along any one axis; the other axes are independent lines.

    Args:
        width: E.
        heads: H, a divisor of E.
        dropout: dropout of the attention weights [..., H, L, L].
        axis: the axis attended along.
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout, *, axis: int = -2) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.dropout = dropout
        self.axis = axis
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.zeros(3 * width))
        self.out = nn.Linear(width, width)
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
            x: [..., L, ..., E], L at the attended axis.
            bias: 0 or -inf, broadcasts to [..., H, L, L].
            causal: position l sees 0..l only.
            cache: slots of earlier positions; `x` is then the next position of the hypotheses of
                each sentence (L = beam), which get slots of their own, and `bias` says which
                slots each of them sees.
        """
        if cache is None and not is_recording() and self._has_kernel(x):
            mixed = short_axis_attention(
                F.linear(x, self.in_weight, self.in_bias),
                self.heads,
                axis=self.axis,
                key_bias=None if bias is None else bias.flatten(1),  # [B, 1, ..., L] -> [B, L]
                causal=causal,
                dropout=self.dropout.rate if self.dropout.is_on else 0.0,
                share_noise=bool(self.dropout.shared),
            )
            return self.out(mixed)  # type: ignore[no-any-return]
        q, k, v = (
            split_heads(part, self.heads, self.axis) for part in self._project(x)
        )  # [..., H, L, D]
        if cache is not None:
            k, v = cache.append(k, v)
        mixed = _attend(self, q, k, v, bias=bias, causal=causal)
        return self.out(join_heads(mixed, self.axis))  # type: ignore[no-any-return]

    def _has_kernel(self, x: Tensor) -> bool:
        return is_supported(x, length=x.shape[self.axis], head_width=self.width // self.heads)

    def in_blocks(
        self,
        x: Tensor,
        norm: LayerNorm,
        dropout: SharedDropout,
        *,
        bias: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Return ``x + dropout(attention(LN(x)))``, the same in blocks of lines.

        Args:
            x: [B, L, E], or a grid of four axes.
            norm: the layer norm before.
            dropout: dropout of the result.
            bias: 0 or -inf, broadcasts to [B, H, L, L], for a grid to [B, A, H, L, L].
            causal: position l sees 0..l only.
        """

        def as_lines(y: Tensor) -> Tensor:  # [B, A, L, E]
            return y.unsqueeze(1) if x.dim() == 3 else y.movedim(self.axis, -2)

        lines = as_lines(x)
        weights_shape = (*lines.shape[:-2], self.heads, lines.shape[-2], lines.shape[-2])
        if x.dim() == 3:
            bias = None if bias is None else bias.unsqueeze(1)
        weights = x.new_empty(()).expand(weights_shape)
        wrapped = attention_in_blocks(
            lines,
            norm,
            (self.in_weight, self.in_bias),
            (self.out.weight, self.out.bias),
            self.heads,
            bias=bias,
            causal=causal,
            weights_noise=self.dropout.noise(weights) if self.dropout.is_on else None,
            noise=as_lines(dropout.noise(x)) if dropout.is_on else None,
        )
        return wrapped.squeeze(1) if x.dim() == 3 else wrapped.movedim(-2, self.axis)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        if not x.is_cuda:
            return F.linear(x, self.in_weight, self.in_bias).chunk(3, dim=-1)
        # one batched product into three contiguous tensors: a fused [..., 3E] output would keep
        # the attention kernels from taking strided views of it
        E = self.width
        rows = x.reshape(1, -1, E).expand(3, -1, -1)  # [3, N, E] with stride 0
        weight = self.in_weight.view(3, E, E).transpose(1, 2)
        parts = torch.baddbmm(self.in_bias.view(3, 1, E).to(weight.dtype), rows, weight)
        return tuple(part.view(x.shape) for part in parts.unbind(0))


class CrossAttention(nn.Module):
    """Attention from one sequence to the keys and values of another.

    Queries come from one matrix [E, E], keys and values from one [2E, E]: the keys and values
    of a source sentence are computed once, whatever asks for them.

    Args:
        width: E.
        heads: H, a divisor of E.
        dropout: dropout of the attention weights [B, H, Lq, Lk].
    """

    def __init__(self, width: int, heads: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        whole = nn.init.xavier_uniform_(torch.empty(3 * width, width))  # as one matrix [3E, E]
        with torch.no_grad():
            self.query.weight.copy_(whole[:width])
            self.key_value.weight.copy_(whole[width:])
        nn.init.xavier_uniform_(self.out.weight)
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of `memory`, [B, L, E] -> two [B, H, L, D]."""
        k, v = self.key_value(memory).chunk(2, dim=-1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None) -> Tensor:
        """Attend from `x`, [B, Lq, E], to keys and values, [B, H, Lk, D]: [B, Lq, E].

        Args:
            x: what asks.
            k: keys.
            v: values.
            bias: 0 or -inf, broadcasts to [B, H, Lq, Lk].
        """
        q = split_heads(self.query(x), self.heads)  # [B, H, Lq, D]
        mixed = _attend(self, q, k, v, bias=bias)
        out: Tensor = self.out(join_heads(mixed))
        return out


def split_heads(x: Tensor, heads: int, axis: int = -2) -> Tensor:
    """View [..., L, ..., E], attended along `axis` of length L, as [..., H, L, D]."""
    return x.view(*x.shape[:-1], heads, -1).movedim(axis % x.dim(), -2)


def join_heads(mixed: Tensor, axis: int = -2) -> Tensor:
    """Undo `split_heads`: put the heads side by side, [..., H, L, D] -> [..., L, ..., E]."""
    return mixed.movedim(-2, axis % (mixed.dim() - 1)).flatten(-2)


def _attend(
    block: MultiHeadAttention | CrossAttention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None,
    causal: bool = False,
) -> Tensor:
    if q.is_cuda and not block.dropout.is_on and not is_recording():
        return fused_attention(q, k, v, bias=bias, causal=causal)
    weights = attention_weights(q, k, bias=bias, causal=causal)
    record(block, weights)
    return mix(block.dropout(weights), v)
