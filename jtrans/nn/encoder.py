"""The encoder of the Transformer (docs/systems.md 1.2), also the PreNet of Reformer-fast."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.layer import Layer
from jtrans.nn.residual import Residual


class EncoderLayer(Layer):
    """Self-attention over real source positions, then a feed-forward network."""

    def __init__(
        self,
        width: int,
        ffn_width: int,
        heads: int,
        *,
        pre_norm: bool,
        dropout: float,
        attention_dropout: float,
        relu_dropout: float,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, SharedDropout(attention_dropout))
        self.feed_forward = FeedForward(width, ffn_width, SharedDropout(relu_dropout))
        self.attention_residual = Residual(width, SharedDropout(dropout), pre_norm=pre_norm)
        self.ffn_residual = Residual(width, SharedDropout(dropout), pre_norm=pre_norm)

    def forward(self, x: Tensor, source_bias: Tensor | None) -> Tensor:
        """Refine source states.

        Args:
            x: [B, S, E]; the result has the same shape.
            source_bias: 0 on real source positions, -inf on padding, [B, S]; None without padding.
        """
        bias = None if source_bias is None else source_bias[:, None, None, :]  # [B, 1, 1, S]
        x = self.attention_residual(x, self.attention, bias=bias)
        return self.ffn_residual(x, self.feed_forward)  # type: ignore[no-any-return]


class LayerSequence(nn.Module):
    """A stack in which each layer reads the output of the one before it."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, layer: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Run the stack on `x`, [..., E]; `layer` maps n, from 0, and the input to the output."""
        for n in range(self.layers):
            x = layer(n, x)
        return x


class Encoder(nn.Module):
    """A stack of encoder layers; with pre-norm it ends in one more layer norm.

    Args:
        layers: number of layers, L.
        width: E.
        ffn_width: F.
        heads: H.
        pre_norm: layer norm before each block, not after it.
        rates: the dropout rates of `EncoderLayer`.

    Attributes:
        stack: gives each layer its input, the output of the one before; DLCL replaces it.
    """

    def __init__(
        self, layers: int, width: int, ffn_width: int, heads: int, *, pre_norm: bool, **rates: float
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(width, ffn_width, heads, pre_norm=pre_norm, **rates) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width) if pre_norm else None
        self.stack: nn.Module = LayerSequence(layers)

    def forward(self, x: Tensor, source_bias: Tensor | None) -> Tensor:
        """Encode embedded source tokens, [B, S, E] -> [B, S, E]."""
        x = self.stack(x, lambda n, x: self.layers[n](x, source_bias))
        return x if self.norm is None else self.norm(x)
