"""The LSTM that attends to the source: the first layer of RNMT+'s decoder (docs/systems.md 7.5)."""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.nn.cpu.blocks import product_dtype
from jtrans.nn.layer import Layer
from jtrans.nn.recorder import record
from jtrans.nn.recurrent.attention import AdditiveAttention, AdditiveKeys
from jtrans.nn.recurrent.attentive import attentive_operator
from jtrans.nn.recurrent.lstm import NormedLstm


class AttentiveLstm(Layer):
    """An LSTM that reads a sequence and, at each step, the context of its previous state.

    Args:
        input_width: I.
        width: N, of its states.
        memory_width: features of the source states.
        heads: number of heads of the attention.
        dropout: dropout rate of the attention weights.
        initial: as in `NormedLstm`.
    """

    is_shardable = False  # the decoder calls its attention to compute the keys of the source

    def __init__(
        self,
        input_width: int,
        width: int,
        memory_width: int,
        heads: int,
        *,
        dropout: float,
        initial: float,
    ) -> None:
        super().__init__()
        self.input_width = input_width
        self.lstm = NormedLstm(input_width + width, width, initial=initial)
        self.attention = AdditiveAttention(memory_width, width, heads, dropout)

    def forward(self, x: Tensor, source: AdditiveKeys) -> Tensor:
        """Read a whole sequence.

        Args:
            x: [T, B, I].
            source: projected source states.

        Returns:
            State and context after each step, side by side, [T, B, 2N].
        """
        dtype = product_dtype(x)
        input_weight, context_weight = self.lstm.input.weight.split(
            [self.input_width, self.lstm.width], dim=1
        )
        joint_weight = torch.cat([self.lstm.state.weight, context_weight], dim=1)
        query_weight, query_bias = self.attention.query_projection()
        B, H, S, _ = source.keys.shape
        weights = source.keys.new_empty(()).expand(len(x) + 1, B, H, S)  # one before all steps
        joint, weights, *_ = attentive_operator(
            x.to(dtype),
            *source,
            self.attention.dropout.mask(weights),
            input_weight.to(dtype),
            joint_weight.to(dtype),
            *self.lstm.affine(),
            query_weight.to(dtype).unsqueeze(0),
            query_bias.to(source.keys.dtype),
            self.attention.score.to(source.keys.dtype),
            not self.lstm.saves_memory,
        )
        record(self.attention, weights[1:].permute(1, 2, 0, 3))  # [B, H, T, S]
        return joint[1:]  # type: ignore[no-any-return]
