"""The self-attention encoder, and the embedding of tokens, prepared for the search."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.decoding.prepared.fixed_linear import fixed_linear
from jtrans.decoding.prepared.stack import Norm, stack_of
from jtrans.decoding.prepared.target import weights_of
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.embedding import InputEmbedding
from jtrans.nn.encoder import Encoder, EncoderLayer
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.memory import require_memory
from jtrans.nn.residual import Residual
from jtrans.nn.softmax import padding_bias


class PreparedEmbedding:
    """Token vectors scaled by sqrt(E), plus positions; padding gets a position too."""

    def __init__(self, module: InputEmbedding) -> None:
        self.weight = module.tokens.weight.detach()
        self.scale = module.scale
        self._module = module
        self._added = self.weight.new_empty(0, self.weight.shape[1])  # per position

    def added(self, count: int) -> Tensor:
        """Return what is added to the scaled vectors of the first `count` positions, [count, E]."""
        table = self._added  # read once: another thread may put a shorter one in its place
        if count > len(table):
            module = self._module
            side = 0.0 if module.side is None else module.side.detach() * self.scale
            table = module.positions(0, max(256, 2 * count)) + side
            self._added = table
        return table[:count]

    def sentence(self, ids: Tensor) -> Tensor:
        """Embed sentences, [B, S] -> [B, S, E]."""
        added = self.added(ids.shape[1])
        return torch.add(added, F.embedding(ids, self.weight), alpha=self.scale)

    def position(self, ids: Tensor, position: int) -> Tensor:
        """Embed the tokens at one position, [...] -> [..., E]."""
        added = self.added(position + 1)[position]
        return torch.add(added, F.embedding(ids, self.weight), alpha=self.scale)


def scaled_queries(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Return weight and bias of queries, divided by sqrt(D), keys and values."""
    weight, bias = attention.in_weight.detach().clone(), attention.in_bias.detach().clone()
    E = weight.shape[1]
    scale = (E // attention.heads) ** -0.5
    weight[:E] *= scale
    bias[:E] *= scale
    return weight, bias


def projection(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Return `scaled_queries` without the key bias, which shifts all scores of a query alike."""
    weight, bias = scaled_queries(attention)
    E = weight.shape[1]
    bias[E : 2 * E] = 0.0
    return weight, bias


class PreparedFeedForward:
    """The FFN with its residual, and with its norm if that comes before it.

    Args:
        module: the FFN.
        residual: the residual around it.
        dtype: the precision of its products.
    """

    def __init__(self, module: FeedForward, residual: Residual, dtype: torch.dtype) -> None:
        inner = module.inner
        self.inner = fixed_linear(inner.weight, inner.bias, dtype, norm_before(residual))
        self.outer = fixed_linear(module.outer.weight, module.outer.bias, dtype)

    def add_to(self, x: Tensor) -> Tensor:
        """Return x + FFN(x), [..., E]; x may be overwritten."""
        return self.outer.add_to(x, self.inner.relu(x))


def norm_before(residual: Residual) -> nn.LayerNorm | None:
    """Return the norm that a block's input goes through (pre-norm); None if there is none."""
    return residual.norm if residual.pre_norm else None


class EncoderWeights:
    """The weights of an encoder layer."""

    def __init__(self, layer: EncoderLayer, dtype: torch.dtype) -> None:
        residuals = layer.attention_residual, layer.ffn_residual
        self.norms = [Norm(residual.norm) for residual in residuals]
        self.heads = layer.attention.heads
        norm = norm_before(layer.attention_residual)
        self.projection = fixed_linear(*projection(layer.attention), dtype, norm)
        self.out = fixed_linear(layer.attention.out.weight, layer.attention.out.bias, dtype)
        self.feed_forward = PreparedFeedForward(layer.feed_forward, layer.ffn_residual, dtype)


class PreparedEncoder:
    """The encoder; `dtype` is the precision of its products."""

    def __init__(self, module: Encoder, dtype: torch.dtype) -> None:
        self.layers = [EncoderWeights(layer, dtype) for layer in module.layers]  # type: ignore[arg-type]
        self.norm = None if module.norm is None else Norm(module.norm)
        self.stack = stack_of(module.stack)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """Encode embedded tokens, [B, S, E], of which those of `mask`, [B, S], are real."""
        B, S, _ = x.shape
        bias = padding_bias(mask, x.dtype)
        pre_norm = self.norm is not None

        def compute(n: int, x: Tensor) -> Tensor:
            layer = self.layers[n]
            if pre_norm:  # the norms are part of the maps that read x
                return layer.feed_forward.add_to(self._attend(layer, x, S, bias))
            self_norm, ffn_norm = layer.norms
            x = self_norm(self._attend(layer, x, S, bias))
            return ffn_norm(layer.feed_forward.add_to(x))

        x = self.stack(x.view(B * S, -1), compute)
        x = x if self.norm is None else self.norm(x)
        return x.view(B, S, -1)

    def _attend(self, layer: EncoderWeights, x: Tensor, length: int, bias: Tensor | None) -> Tensor:
        """Return x plus its self-attention, [B * S, E]; x may be overwritten."""
        S, H = length, layer.heads
        B = len(x) // S
        size = 2 * 4 * B * H * S * S  # scores and weights at the same time
        require_memory(size, x.device, "attention weights")
        parts = layer.projection(x).view(B, S, 3, H, -1).permute(2, 0, 3, 1, 4).contiguous()
        q, k, v = parts.view(3, B * H, S, -1).unbind(0)  # [B * H, S, D]
        scores = torch.bmm(q, k.mT)
        if bias is not None:
            scores.view(B, H, S, S).add_(bias[:, None, None, :])
        mixed = torch.bmm(weights_of(scores), v)
        mixed = mixed.view(B, H, S, -1).transpose(1, 2).reshape(B * S, -1)
        return layer.out.add_to(x, mixed)
