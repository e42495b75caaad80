"""RNMT+ (Chen et al. 2018): a recurrent encoder-decoder with the Transformer's training techniques.

    source [B, S] -> embed -> bidirectional LSTM layers -> projection              -> [B, S, E]
    target [B, T] -> embed -> LSTM that attends to the source at every step
                           -> LSTM layers that read the context, too               -> [B, T, 2E]
    logits = [ last layer ; context ] W_s + b_s                                    -> [B, T, V]

The LSTMs normalise every gate (`jtrans/nn/recurrent`), attention is additive with several heads,
and layers have residuals from the third one on. There are no positions. Inside, sequences are
time-major, [T, B, E].

Differs from the paper: the first decoder layer has no dropout, as in the published code; the
start symbol is ``</s>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from jtrans.models.base import AttentionMap, Memory, TranslationModel
from jtrans.models.systems import RnmtPlusConfig
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import PADDING
from jtrans.nn.layer import Layer
from jtrans.nn.recorder import record_attention
from jtrans.nn.recurrent.attention import AdditiveKeys
from jtrans.nn.recurrent.first_layer import AttentiveLstm
from jtrans.nn.recurrent.lstm import BidirectionalLstm, NormedLstm, Reversal


class RecurrentEncoderLayer(Layer):
    """A bidirectional LSTM, dropout, and optionally a residual (docs/systems.md 7.3)."""

    def __init__(self, input_width: int, config: RnmtPlusConfig, *, has_residual: bool) -> None:
        super().__init__()
        self.lstm = BidirectionalLstm(input_width, config.width, initial=config.initial_range)
        self.dropout = SharedDropout(config.dropout)
        self.has_residual = has_residual

    def forward(self, x: Tensor, reversal: Reversal) -> Tensor:
        """Read the sentences in both directions, [S, B, E] or [S, B, 2E] -> [S, B, 2E]."""
        states = self.lstm.read(x, reversal)
        return self.dropout.add(x, states) if self.has_residual else self.dropout(states)


class RecurrentDecoderLayer(Layer):
    """An LSTM over state and context, dropout, and optionally a residual (docs/systems.md 7.5)."""

    def __init__(self, config: RnmtPlusConfig, *, has_residual: bool) -> None:
        super().__init__()
        self.lstm = NormedLstm(2 * config.width, config.width, initial=config.initial_range)
        self.dropout = SharedDropout(config.dropout)
        self.has_residual = has_residual

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Read all steps, two [T, B, E] -> [T, B, E]."""
        states = self.lstm(torch.cat([x, context], dim=-1)).squeeze(2)  # [T, B, E]
        return self.finish(x, states)

    def step(self, x: Tensor, context: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Read one step, two [N, E] -> [N, E]; also return the next state and cell, [2, N, E]."""
        after = torch.stack(self.lstm.step(torch.cat([x, context], dim=-1), *before))
        return self.finish(x, after[0]), after

    def finish(self, x: Tensor, states: Tensor) -> Tensor:
        """Return the output for input `x`, given the states of the LSTM, [..., E] each."""
        return self.dropout.add(x, states) if self.has_residual else self.dropout(states)


class RnmtEncoder(nn.Module):
    """Embedding, bidirectional LSTM layers, and a projection to the width of the model."""

    def __init__(self, config: RnmtPlusConfig, vocabulary: int) -> None:
        super().__init__()
        E = config.width
        self.embedding = uniform_embedding(vocabulary, E, config.initial_range)
        self.dropout = SharedDropout(config.dropout)
        self.layers = nn.ModuleList(
            RecurrentEncoderLayer(2 * E if n else E, config, has_residual=n >= 2)
            for n in range(config.encoder_layers)
        )
        self.projection = uniform_linear(2 * E, E, config.initial_range)

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode token ids, [B, S] -> [B, S, E].

        Args:
            source: token ids, [B, S].
            source_mask: True on real tokens, [B, S].
        """
        x = self.dropout(self.embedding(source.t()))  # [S, B, E]
        reversal = Reversal.of(source_mask.t())
        for layer in self.layers:
            x = layer(x, reversal)  # [S, B, 2E]
        return self.projection(x.transpose(0, 1))  # type: ignore[no-any-return]


@dataclass
class RnmtState:
    """The state of N = B x beam hypotheses; it does not grow."""

    keys: AdditiveKeys  # keys and values of the attention, for each sentence
    states: Tensor  # state and cell of each layer, then the context, [2 L + 1, N, E]

    @property
    def beam(self) -> int:
        """The number of hypotheses per sentence."""
        return self.states.shape[1] // len(self.keys.values)

    def select(self, rows: Tensor) -> RnmtState:
        """Return the state of the hypotheses `rows`, [B', beam']."""
        keys = self.keys
        if len(rows) != len(keys.values):  # sentences have left; otherwise their order is kept
            keys = keys.select(rows[:, 0] // self.beam)
        return RnmtState(keys, self.states.index_select(1, rows.flatten()))


class RnmtDecoder(nn.Module):
    """Embedding, an attentive LSTM, further LSTM layers, and the map to the vocabulary.

    Args:
        config: sizes and rates.
        vocabulary: V, of the target.
        memory_width: features of the source states.
    """

    def __init__(self, config: RnmtPlusConfig, vocabulary: int, memory_width: int) -> None:
        super().__init__()
        E = config.width
        self.embedding = uniform_embedding(vocabulary, E, config.initial_range)
        self.dropout = SharedDropout(config.dropout)
        self.first = AttentiveLstm(
            E,
            E,
            memory_width,
            config.heads,
            dropout=config.attention_dropout,
            initial=config.initial_range,
        )
        self.layers = nn.ModuleList(
            RecurrentDecoderLayer(config, has_residual=n >= 1)
            for n in range(config.decoder_layers - 1)
        )
        self.output = uniform_linear(2 * E, vocabulary, config.initial_range)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return last state and context of all positions, [B, T] -> [B, T, 2E]."""
        keys = self.first.attention.keys(memory.states, memory.mask)
        joint = self.first(self.dropout(self.embedding(target.t())), keys)  # [T, B, 2E]
        x, context = joint.chunk(2, dim=-1)
        for layer in self.layers:
            x = layer(x, context)
        return torch.cat([x, context], dim=-1).transpose(0, 1)

    def begin(self, memory: Memory, beam: int) -> RnmtState:
        """Return the state of empty prefixes: zeros, and the context of a zero query."""
        keys = self.first.attention.keys(memory.states, memory.mask)
        B, H, _, D = keys.values.shape
        context = self.first.attention(keys.values.new_zeros(B, 1, H * D), keys)  # [B, 1, E]
        states = context.new_zeros(2 * len(self.layers) + 3, B * beam, H * D)
        states[-1] = context[:, 0].repeat_interleave(beam, dim=0)
        return RnmtState(keys, states)

    def step(self, token: Tensor, state: RnmtState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, 2E]."""
        *before, context = state.states.split([2] * (len(self.layers) + 1) + [1])
        x = torch.cat([self.dropout(self.embedding(token)), context[0]], dim=-1)
        after = [torch.stack(self.first.lstm.step(x, *before[0]))]
        x = after[0][0]  # [N, E]
        queries = x.view(-1, state.beam, x.shape[-1])  # [B, beam, E]
        context = self.first.attention(queries, state.keys).reshape_as(x)
        for layer, layer_before in zip(self.layers, before[1:], strict=True):
            x, layer_after = layer.step(x, context, layer_before)  # type: ignore[operator]
            after.append(layer_after)
        state.states = torch.cat([*after, context[None]])
        return torch.cat([x, context], dim=-1)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., 2E] -> [..., V]."""
        return self.output(hidden)  # type: ignore[no-any-return]

    @torch.no_grad()
    def explain_decoder(self, target: Tensor, memory: Memory) -> list[AttentionMap]:
        """Return the only attention, [B, H, T, S]."""
        with record_attention() as weights:
            self.decode(target, memory)
        axes = ("head", "target", "source")
        return [AttentionMap("decoder.0.cross", axes, weights[self.first.attention])]


class RnmtPlus(TranslationModel):
    """The recurrent encoder-decoder model."""

    Config = RnmtPlusConfig
    config: RnmtPlusConfig
    # the fewest layers with residuals; a range that suits so small a width
    tiny: ClassVar[Mapping[str, Any]] = {
        "encoder_layers": 3,
        "decoder_layers": 3,
        "initial_range": 0.3,
    }

    def __init__(
        self, config: RnmtPlusConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        self.encoder = RnmtEncoder(config, source_vocabulary)
        self.decoder = RnmtDecoder(config, target_vocabulary, config.width)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode the source, [B, S] -> memory of [B, S, E]."""
        return Memory(self.encoder(source, source_mask), source_mask)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return hidden states of all positions, [B, T, 2E]."""
        return self.decoder.decode(target, memory)

    def begin(self, memory: Memory, beam: int) -> RnmtState:
        """Return the state of empty prefixes, with the source projected once per sentence."""
        return self.decoder.begin(memory, beam)

    def step(self, token: Tensor, state: RnmtState) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, 2E]."""
        return self.decoder.step(token, state)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., 2E] -> [..., V]."""
        return self.decoder.project(hidden)

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        return self.decoder.output.weight, self.decoder.output.bias

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the attention of the decoder, [B, H, T, S]."""
        return self.decoder.explain_decoder(target, self.encode(source, source != PADDING))


def uniform_embedding(vocabulary: int, width: int, initial: float) -> nn.Embedding:
    """Return an embedding drawn from -initial to initial whose padding row is zero."""
    embedding = nn.Embedding(vocabulary, width, padding_idx=PADDING)
    nn.init.uniform_(embedding.weight, -initial, initial)
    with torch.no_grad():
        embedding.weight[PADDING].zero_()
    return embedding


def uniform_linear(width_in: int, width_out: int, initial: float) -> nn.Linear:
    """Return a linear map drawn from -initial to initial with a bias of 0."""
    linear = nn.Linear(width_in, width_out)
    nn.init.uniform_(linear.weight, -initial, initial)
    nn.init.zeros_(linear.bias)
    return linear
