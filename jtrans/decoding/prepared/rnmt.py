"""The recurrent decoder of RNMT+ and of hybrids (docs/systems.md 7) prepared for the search.

An LSTM's step has one product, of its input, the context and its state side by side, and the two
linear maps of a query are one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.decoding.prepared.base import Searchable, encoded
from jtrans.decoding.prepared.fixed_linear import fixed_linear, product_type
from jtrans.decoding.prepared.target import at_least_read
from jtrans.decoding.prepared.transformer import PreparedTransformer
from jtrans.models.base import Memory
from jtrans.models.hybrid import Hybrid
from jtrans.models.rnmt import RecurrentDecoderLayer, RnmtDecoder, RnmtPlus, RnmtState
from jtrans.nn.recurrent.attention import AdditiveKeys
from jtrans.nn.recurrent.gates import activate, advance, normalise
from jtrans.nn.recurrent.lstm import NormedLstm


class LstmWeights:
    """The weights of an LSTM cell.

    Args:
        lstm: an LSTM in one direction.
        dtype: type of the product.
        has_residual: whether its first input is added to its state.
    """

    def __init__(self, lstm: NormedLstm, dtype: torch.dtype, *, has_residual: bool = False) -> None:
        weight = torch.cat([lstm.input.weight[0], lstm.state.weight[0]]).t()
        self.product = fixed_linear(weight, None, dtype)
        self.gain, self.shift = (each.detach() for each in lstm.affine())
        self.has_residual = has_residual

    def step(self, x: Tensor, context: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Read one more step.

        Args:
            x: [N, I].
            context: [N, E].
            before: state and cell, [2, N, E].
            after: where the next ones are written, [2, N, E].

        Returns:
            The output, [N, E].
        """
        z = self.product(torch.cat([x, context, before[0]], dim=1)).to(after.dtype)
        gates, _ = normalise(z.view(len(x), 1, 4, -1))
        activate(gates, self.gain, self.shift, gates)
        advance(gates[:, 0], before[1], after[1], after[0])
        return x + after[0] if self.has_residual else after[0]


class PreparedRnmt:
    """A model with the recurrent decoder on a CPU.

    Args:
        model: in evaluation mode.
        decoder: its decoder.
        precision: ``fp32``, that of the weights, ``bf16``, or ``int8`` weights. Attention is in
            float32 at least.
    """

    is_joint = False

    @torch.no_grad()
    def __init__(self, model: RnmtPlus | Hybrid, decoder: RnmtDecoder, precision: str) -> None:
        self.model, self.decoder, self.precision = model, decoder, precision
        self.longest, self.device = model.longest, model.device
        self.embedding = decoder.embedding.weight.detach()
        products = product_type(precision, self.embedding.dtype)
        self.first = LstmWeights(decoder.first.lstm, products)
        layers: list[RecurrentDecoderLayer] = list(decoder.layers)  # type: ignore[arg-type]
        self.layers = [
            LstmWeights(each.lstm, products, has_residual=each.has_residual) for each in layers
        ]
        attention = decoder.first.attention
        weight, bias = attention.query_projection()
        self.query = fixed_linear(weight.t(), bias, products)
        self.score = attention.score.detach()
        self.output = fixed_linear(decoder.output.weight, decoder.output.bias, products)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        return encoded(self.model, self.precision, source, source_mask)

    def begin(self, memory: Memory, beam: int) -> RnmtState:
        """Return the state of B x beam empty prefixes."""
        states = memory.states.to(self.embedding.dtype)
        state = self.decoder.begin(Memory(states, memory.mask), beam)
        bias, values, keys = at_least_read(state.keys.bias, state.keys.values, state.keys.keys)
        return RnmtState(AdditiveKeys(values, keys, bias), state.states)

    def step(self, token: Tensor, state: RnmtState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, 2E]."""
        before, after = state.states, torch.empty_like(state.states)
        embedded = F.embedding(token, self.embedding)
        x = self.first.step(embedded, before[-1], before[:2], after[:2])
        context = after[-1]
        self._attend(x, state, context)
        for n, layer in enumerate(self.layers, 1):
            x = layer.step(x, context, before[2 * n : 2 * n + 2], after[2 * n : 2 * n + 2])
        state.states = after
        return torch.cat([x, context], dim=1)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., 2E] -> [..., V]."""
        return self.output(hidden)

    def _attend(self, x: Tensor, state: RnmtState, context: Tensor) -> None:
        """Write the context of the states x, [N, E]."""
        values, keys, bias = state.keys
        B, H, S, D = keys.shape
        queries = self.query(x).to(keys.dtype).view(B, -1, H, D).transpose(1, 2).contiguous()
        lines = keys.view(B * H, 1, S, D) + queries.view(B * H, -1, 1, D)  # [B * H, beam, S, D]
        scores = torch.mv(lines.tanh_().view(-1, D), self.score).view(B, H, -1, S)
        weights = torch.softmax(scores.add_(bias[:, None, None]), -1)
        mixed = torch.bmm(weights.view(B * H, -1, S), values.view(B * H, S, D))
        context.view(B, -1, H, D).copy_(mixed.view(B, H, -1, D).transpose(1, 2))


def prepare_rnmt(model: RnmtPlus | Hybrid, precision: str) -> Searchable | None:
    """Return the prepared form; None for the recurrent decoder on a device other than a CPU."""
    if not isinstance(model.decoder, RnmtDecoder):
        return PreparedTransformer(model, model.decoder, precision)
    return PreparedRnmt(model, model.decoder, precision) if model.device.type == "cpu" else None
