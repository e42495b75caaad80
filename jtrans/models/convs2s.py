"""ConvS2S (Gehring et al. 2017): gated convolutions, and an attention in every decoder layer.

    e = Emb(x) + Pos           x = W e                                                  [B, S, C]
    encoder layers { x = (GLU(conv(x)) + x) R }     z = W x,  values (z + e) R          [B, S, E]
    g = Emb(y) + Pos           h = W g                                                  [B, T, C]
    decoder layers { u = GLU(causal conv(h)) ; u = attention(u + g -> z, values) ;
                     h = (u + h) R }                                                    [B, T, C]
    logits = W_out (W h) + b                                                            [B, T, V]

R = sqrt(1/2) keeps the variance of a sum of two. Nothing recurs: in training all positions of a
sentence are computed at once, and a step of the search needs only the last inputs of each
convolution. All linear layers and convolutions are weight-normalised; there is no layer norm.

Differs from the original code (fairseq's `fconv`): the position tables serve as many tokens as they
have rows, not two fewer, and sentences are padded on the right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from jtrans.models.base import AttentionMap, Memory, TranslationModel
from jtrans.models.convolution_stack import ConvolutionSizes, read_stack
from jtrans.models.systems import Convs2sConfig
from jtrans.nn.convolution.gated import GatedConvolution
from jtrans.nn.convolution.weight_norm import WeightNormLinear
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import PADDING, LearnedPositionEmbedding
from jtrans.nn.layer import Layer
from jtrans.nn.recorder import record, record_attention
from jtrans.nn.softmax import padding_bias, softmax

R = 0.5**0.5


@dataclass
class Convs2sMemory(Memory):
    """The encoded source: `states` are the keys of the attentions."""

    values: Tensor  # [B, S, E]

    def select(self, rows: Tensor) -> Convs2sMemory:
        """Return the memory of the sentences `rows`, [B']."""
        states, mask, values = (
            tensor.index_select(0, rows) for tensor in (self.states, self.mask, self.values)
        )
        return Convs2sMemory(states, mask, values)


class AttendedSource(NamedTuple):
    """The source as every attention reads it."""

    keys: Tensor  # [B, S, E]
    values: Tensor  # times the square root of the number of real tokens, [B, S, E]
    bias: Tensor | None  # 0 on real tokens, -inf on padding, [B, 1, S]; None without padding

    @classmethod
    def of(cls, memory: Convs2sMemory) -> AttendedSource:
        """Return the source of a memory."""
        # the mean of n values has 1/n of their variance
        scale = memory.mask.sum(1).to(memory.values.dtype).sqrt()[:, None, None]  # [B, 1, 1]
        bias = padding_bias(memory.mask)
        return cls(memory.states, memory.values * scale, None if bias is None else bias[:, None])

    def select(self, sentences: Tensor) -> AttendedSource:
        """Return the source of some sentences, [B']."""
        keys, values, bias = self
        return AttendedSource(
            keys[sentences], values[sentences], None if bias is None else bias[sentences]
        )


class MultiStepAttention(nn.Module):
    """The attention of one decoder layer: one head, no scaling of the scores.

    See docs/systems.md 9.1.

    Args:
        channels: features of the layer.
        width: E.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.query = WeightNormLinear(channels, width)
        self.out = WeightNormLinear(width, channels)

    def forward(self, u: Tensor, g: Tensor, source: AttendedSource) -> Tensor:
        """Add the attended source to the output of a convolution.

        Args:
            u: gated output of the convolution, [B, T, C], or a step of the search, [N, 1, C].
            g: embedded target tokens, [B, T, E] or [N, 1, E].
            source: keys and values of B source sentences.

        Returns:
            ``(W context + u) R``, of the shape of `u`.
        """
        B, _, E = source.keys.shape
        d = ((self.query(u) + g) * R).view(B, -1, E)  # N hypotheses are positions of B sentences
        scores = torch.bmm(d, source.keys.transpose(1, 2))  # [B, T, S]
        if source.bias is not None:
            scores = scores + source.bias
        weights = softmax(scores, -1)
        record(self, weights)
        context = torch.bmm(weights.to(source.values.dtype), source.values)  # [B, T, E]
        return (self.out(context.view(g.shape)) + u) * R  # type: ignore[no-any-return]


class Shortcut(nn.Module):
    """The residual connection of a layer, projected where its width differs.

    Args:
        inputs: features of the state that is added.
        channels: features of the layer.
    """

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.projection = None if inputs == channels else WeightNormLinear(inputs, channels)

    def forward(self, out: Tensor, state: Tensor) -> Tensor:
        """Return ``(out + state) R``, [..., channels]; `state` is [..., inputs]."""
        return (out + (state if self.projection is None else self.projection(state))) * R


class ConvolutionEncoderLayer(Layer):
    """A centred convolution over the source.

    Args:
        inputs: features of its input.
        skipped: features of the state that is added; None if there is none.
        sizes: channels and kernel of the layer.
        dropout: dropout of its input.
    """

    def __init__(
        self, inputs: int, skipped: int | None, sizes: ConvolutionSizes, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = SharedDropout(dropout)
        self.convolution = GatedConvolution(
            inputs, sizes.channels, sizes.kernel, causal=False, dropout=dropout
        )
        self.shortcut = None if skipped is None else Shortcut(skipped, sizes.channels)

    def forward(self, x: Tensor, state: Tensor | None, is_real: Tensor | None) -> Tensor:
        """Refine source states, [B, S, inputs] -> [B, S, channels].

        Args:
            x: [B, S, inputs].
            state: the earlier state that is added, [B, S, skipped], if there is one.
            is_real: True on real tokens, [B, S, 1]; None without padding.
        """
        if is_real is not None:
            x = x * is_real
        u = self.convolution(self.dropout(x))
        return u if self.shortcut is None else self.shortcut(u, state)  # type: ignore[no-any-return]


class ConvolutionDecoderLayer(Layer):
    """A causal convolution over the target, then an attention to the source.

    Args:
        inputs: features of its input.
        skipped: features of the state that is added; None if there is none.
        sizes: channels and kernel of the layer.
        width: E.
        attends: whether it has an attention.
        dropout: dropout of its input.
    """

    def __init__(
        self,
        inputs: int,
        skipped: int | None,
        sizes: ConvolutionSizes,
        width: int,
        *,
        attends: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.dropout = SharedDropout(dropout)
        self.convolution = GatedConvolution(
            inputs, sizes.channels, sizes.kernel, causal=True, dropout=dropout
        )
        self.attention = MultiStepAttention(sizes.channels, width) if attends else None
        self.shortcut = None if skipped is None else Shortcut(skipped, sizes.channels)

    def forward(
        self,
        x: Tensor,
        state: Tensor | None,
        g: Tensor,
        source: AttendedSource,
        window: Tensor | None = None,
    ) -> Tensor:
        """Refine target states, [B, T, inputs] -> [B, T, channels].

        Args:
            x: [B, T, inputs], or a step of the search, [N, 1, inputs].
            state: the earlier state that is added, [B, T, skipped], if there is one.
            g: embedded target tokens, [B, T, E].
            source: the source of B sentences, which the attention reads.
            window: in a step of the search, the last inputs including `x`, [N, kernel, inputs].
        """
        if window is None:
            u = self.convolution(self.dropout(x))
        else:
            u = self.convolution.of_windows(window)
        if self.attention is not None:
            u = self.attention(u, g, source)
        return u if self.shortcut is None else self.shortcut(u, state)  # type: ignore[no-any-return]


@dataclass
class Convs2sState:
    """The state of N = B x beam hypotheses, whose size does not depend on the prefix."""

    source: AttendedSource
    windows: list[Tensor]  # per layer, the last kernel - 1 inputs, [N, kernel - 1, C]
    length: int = 0  # positions read so far

    def select(self, rows: Tensor) -> Convs2sState:
        """Return the state of the hypotheses `rows`, [B', beam']."""
        source, B = self.source, len(self.source.keys)
        if len(rows) != B:  # sentences have left; otherwise their order is kept
            source = source.select(rows[:, 0] // (len(self.windows[0]) // B))
        chosen = rows.flatten()
        return Convs2sState(
            source, [window.index_select(0, chosen) for window in self.windows], self.length
        )


class ConvS2S(TranslationModel):
    """The convolutional encoder-decoder."""

    Config = Convs2sConfig
    config: Convs2sConfig
    tiny: ClassVar[Mapping[str, Any]] = {
        "output_width": 16,
        "encoder_layers": "2 x (16, 3)",
        "decoder_layers": "2 x (16, 4)",  # reads seven tokens, the length of the tests' sentences
        "positions": 64,
    }

    def __init__(
        self, config: Convs2sConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        E, p = config.width, config.dropout
        self.source_embedding, self.target_embedding = (
            LearnedPositionEmbedding(vocabulary, E, config.positions, SharedDropout(p))
            for vocabulary in (source_vocabulary, target_vocabulary)
        )
        encoder, decoder = read_stack(config.encoder_layers), read_stack(config.decoder_layers)
        self.source_input = WeightNormLinear(E, encoder[0].channels, variance=1.0 - p)
        self.encoder = nn.ModuleList(
            ConvolutionEncoderLayer(*widths, sizes, p)
            for widths, sizes in zip(_widths(encoder), encoder, strict=True)
        )
        self.keys = WeightNormLinear(encoder[-1].channels, E)
        self.target_input = WeightNormLinear(E, decoder[0].channels, variance=1.0 - p)
        self.layers = nn.ModuleList(
            ConvolutionDecoderLayer(
                *widths, sizes, E, attends=n in config.attending_layers, dropout=p
            )
            for n, (widths, sizes) in enumerate(zip(_widths(decoder), decoder, strict=True))
        )
        self.last = WeightNormLinear(decoder[-1].channels, config.output_width)
        self.dropout = SharedDropout(p)
        self.output: WeightNormLinear | nn.Linear
        if config.tie == "none":
            self.output = WeightNormLinear(config.output_width, target_vocabulary, variance=1.0 - p)
        else:
            self.output = nn.Linear(E, target_vocabulary)
            self.output.weight = self.target_embedding.tokens.weight
            nn.init.zeros_(self.output.bias)
        self.residuals = [[sizes.residual for sizes in stack] for stack in (encoder, decoder)]

    @property
    def longest(self) -> int:
        """The number of positions that have a vector."""
        return self.config.positions

    def encode(self, source: Tensor, source_mask: Tensor) -> Convs2sMemory:
        """Encode the source, [B, S] -> keys and values, [B, S, E]."""
        e = self.source_embedding(source)
        is_padded = source_mask.device.type != "cpu" or not bool(source_mask.all())
        is_real = source_mask[..., None] if is_padded else None
        x = self._run(0, self.source_input(e), lambda n, x, y: self.encoder[n](x, y, is_real))
        z = self.keys(x).to(e.dtype)
        if is_real is not None:
            z = z * is_real
        if z.requires_grad:  # the sum of the gradients of all attentions would be too large
            scale = 1.0 / (2 * len(self.config.attending_layers))
            z.register_hook(lambda gradient: gradient * scale)
        return Convs2sMemory(z, source_mask, (z + e) * R)

    def decode(self, target: Tensor, memory: Convs2sMemory) -> Tensor:  # type: ignore[override]
        """Return hidden states of all positions, [B, T, O]."""
        source = AttendedSource.of(memory)
        g = self.target_embedding(target)
        x = self._run(1, self.target_input(g), lambda n, x, y: self.layers[n](x, y, g, source))
        return self.dropout(self.last(x))  # type: ignore[no-any-return]

    def begin(self, memory: Convs2sMemory, beam: int) -> Convs2sState:  # type: ignore[override]
        """Return the state of empty prefixes: zeros in the window of every convolution."""
        N = beam * memory.mask.shape[0]  # len would be a constant in a trace
        layers = read_stack(self.config.decoder_layers)
        windows = [
            memory.values.new_zeros(N, layer.kernel - 1, inputs)
            for layer, (inputs, _) in zip(layers, _widths(layers), strict=True)
        ]
        return Convs2sState(AttendedSource.of(memory), windows)

    def step(self, token: Tensor, state: Convs2sState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, O]."""
        g = self.target_embedding(token[:, None], start=state.length)  # [N, 1, E]
        state.length += 1

        def layer(n: int, x: Tensor, skipped: Tensor | None) -> Tensor:
            window = torch.cat([state.windows[n], x], dim=1)  # [N, kernel, C]
            state.windows[n] = window[:, 1:]
            return self.layers[n](x, skipped, g, state.source, window)  # type: ignore[no-any-return]

        x = self._run(1, self.target_input(g), layer)
        return self.last(x)[:, 0]  # type: ignore[no-any-return]

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., O] -> [..., V]."""
        return self.output(hidden)  # type: ignore[no-any-return]

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        output = self.output
        weight = output.weight() if isinstance(output, WeightNormLinear) else output.weight
        return weight, output.bias

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the attention of every decoder layer that has one, [B, T, S] each."""
        with record_attention() as weights:
            self.decode(target, self.encode(source, source != PADDING))
        return [
            AttentionMap(f"decoder.{n}.cross", ("target", "source"), weights[layer.attention])
            for n, layer in enumerate(self.layers)
            if layer.attention is not None
        ]

    def _run(
        self, side: int, x: Tensor, layer: Callable[[int, Tensor, Tensor | None], Tensor]
    ) -> Tensor:
        """Run a stack, [B, L, C] -> [B, L, C']; `layer` gets n, its input and the state it adds."""
        residuals = self.residuals[side]
        # sums of layers stay in float32 under autocast. The copy is needed as a linear layer
        # returns a view, for which torch would compile the layer again
        x = x.to(self.source_embedding.positions.dtype, copy=True)
        states = deque([x], maxlen=max(1, *residuals))
        for n, residual in enumerate(residuals):
            states.append(layer(n, states[-1], states[-residual] if residual else None))
        return states[-1]


def _widths(layers: Sequence[ConvolutionSizes]) -> Iterator[tuple[int, int | None]]:
    """Yield the widths of each layer's input and of the earlier state that it adds, if any."""
    widths = [layers[0].channels]
    for layer in layers:
        yield widths[-1], widths[-layer.residual] if layer.residual else None
        widths.append(layer.channels)
