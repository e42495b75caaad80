"""Reformer-base and Reformer-fast prepared for the search on a CPU.

A step adds one target position to every hypothesis: a column of S vectors, for beam hypotheses of
each sentence beam x S rows. Rows lie packed, [sentence, hypothesis, source position]: no source is
padded, products take the rows of all sentences at once, attention those of one sentence, or of
neighbours of the same length. A sentence that leaves is left out of the next step's rows; nothing
is moved. Sentences are taken in blocks through all layers, so that a block's rows stay in the
processor's cache whatever the size of the batch.

Prepared once: layer norms' scale and shift are folded into the weights that read them, 1/sqrt(D)
into those of the queries. Prepared once per sentence: the source's share of the first layer's
queries, keys and values. Its input is ``u_i + v_j``, so with W centred,
``W LN(u_i + v_j) = (W u_i + W v_j) / std(u_i + v_j)``, and no product of the grid's size is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.decoding.prepared.slots import Slots, slot_bias, take_slots
from jtrans.models.base import Memory, TranslationModel
from jtrans.models.reformer import JointLayer, Reformer
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.cpu.fixed_linear import FixedLinear, input_type, product_type
from jtrans.nn.feed_forward import FeedForward
from jtrans.nn.memory import require_memory
from jtrans.nn.reduction import AttentionReduction
from jtrans.nn.residual import Residual

ROWS = 2048  # rows of a block


@dataclass(frozen=True)
class Sentence:
    """A source sentence without padding.

    Args:
        states: [S, E], of a joined grid half as wide.
        first: its share of the first layer's queries, keys and values, [S, 3E].
    """

    states: Tensor
    first: Tensor

    @property
    def length(self) -> int:
        """S."""
        return len(self.states)


class JointState:
    """The state of the prefixes of N = A x beam hypotheses.

    Args:
        sentences: the A sentences still in the search.
        caches: the keys and values of target attention of each sentence.
        mask: True where a slot belongs to a hypothesis's prefix, [A, beam, slots].
        length: positions read so far.
    """

    def __init__(
        self, sentences: Sequence[Sentence], caches: Sequence[Slots], mask: Tensor, length: int
    ) -> None:
        self.sentences = sentences
        self.caches = caches
        self.mask = mask
        self.length = length

    @property
    def beam(self) -> int:
        """The number of hypotheses per sentence."""
        return self.mask.shape[1]

    def select(self, rows: Tensor) -> JointState:
        """Return the state of the hypotheses `rows`, [A', beam']; this one must not be reused."""
        numbers = rows[:, 0] // self.beam
        mask = self.mask[numbers[:, None], rows % self.beam]
        if len(rows) == len(self.sentences):
            return JointState(self.sentences, self.caches, mask, self.length)
        left = numbers.tolist()
        sentences, caches = ([each[n] for n in left] for each in (self.sentences, self.caches))
        return JointState(sentences, caches, mask, self.length)


@dataclass(frozen=True)
class _Run:
    """Neighbouring sentences of one source length.

    Args:
        sentences: how many.
        length: S.
        rows: their rows of the block.
    """

    sentences: int
    length: int
    rows: slice


@dataclass(frozen=True)
class _Block:
    """Sentences that are taken through all layers together.

    Args:
        sentences: their numbers in the state.
        runs: the same by source length.
        spans: the rows of each sentence.
        rows: how many rows they have.
    """

    sentences: range
    runs: list[_Run]
    spans: list[slice]
    rows: int


class PreparedReformer:
    """A Reformer on a CPU with weights for searching only.

    Args:
        model: a Reformer in evaluation mode, in float32 or float64.
        precision: ``bf16``: products of the joint layers are in bfloat16, all else is in float32:
            the cache, the encoder, the Reduction and the logits. Rounding the last two as well
            changed 2.5 instead of 1.5 % of the translations (small models, briefly trained).
            ``int8``: the same layers have int8 weights.
    """

    is_joint = True
    longest: int | None = None

    @torch.no_grad()
    def __init__(self, model: Reformer, precision: str) -> None:
        self.model = model
        self.device = model.device
        self.heads = model.config.heads
        self.width = model.config.grid_width
        self.ffn_width = model.config.ffn_width
        self.is_sum = model.config.grid == "sum"
        self.dtype = model.output.weight.dtype
        product = product_type(precision, self.dtype)
        self.layers = [_Layer(layer, product) for layer in model.layers]  # type: ignore[arg-type]
        self.first = _FirstInput(model.layers[0], model.config.width, self.is_sum)  # type: ignore[arg-type]
        self.reduction = _Reduction(model)
        self.output = FixedLinear(model.output.weight, model.output.bias, self.dtype)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone; it is little, so in float32."""
        return self.model.encode(source, source_mask)

    def begin(self, memory: Memory, beam: int) -> JointState:
        """Return the state of B x beam empty prefixes."""
        lengths = memory.mask.sum(1).tolist()
        states = [row[:length] for row, length in zip(memory.states, lengths, strict=True)]
        sentences = [Sentence(u, self.first.of_source(u)) for u in states]
        caches = [Slots(len(self.layers), S, self.heads, self.width, self.dtype) for S in lengths]
        mask = torch.zeros(len(lengths), beam, 0, dtype=torch.bool)
        return JointState(sentences, caches, mask, 0)

    def step(self, token: Tensor, state: JointState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]: one more column of the grid."""
        v = self.model.target_embedding(token[:, None], start=state.length)[:, 0]  # [N, E]
        v = v.view(len(state.sentences), state.beam, -1)
        state.mask = take_slots(state.mask, state.caches)
        state.length += 1
        bias = slot_bias(state.mask, self.dtype)
        blocks = _blocks([sentence.length for sentence in state.sentences], state.beam)
        return torch.cat([self._column(block, state, v, bias) for block in blocks])

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)

    def _column(self, block: _Block, state: JointState, v: Tensor, bias: Tensor) -> Tensor:
        """Return the hidden states of the hypotheses of a block, [n, E]."""
        self._require_memory(block, state.beam)
        x, qkv = self._first(block, state, v)
        for number, layer in enumerate(self.layers):
            if number:
                qkv = layer.target_in(layer.read(x)).to(self.dtype)
            mixed = self._along_target(block, state, number, qkv, bias)
            x = layer.add(0, layer.target_out, x, mixed)
            x = layer.feed_forward(1, layer.target_ffn, x)
            qkv = layer.source_in(layer.read(x))
            x = layer.add(2, layer.source_out, x, self._along_source(block, state.beam, qkv))
            x = layer.feed_forward(3, layer.source_ffn, x)
        return self.reduction(x, block.runs, state.beam)

    def _require_memory(self, block: _Block, beam: int) -> None:
        """Refuse a block whose rows and attention weights do not fit: a long sentence alone."""
        scores = max(run.sentences * run.length**2 for run in block.runs) * beam * self.heads
        vectors = block.rows * (5 * self.width + self.ffn_width)
        size = (vectors + 2 * scores) * self.dtype.itemsize  # weights beside scores
        require_memory(size, self.device, "the rows of a step and their attention weights")

    def _first(self, block: _Block, state: JointState, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the grid's new columns, [rows, E], and the first queries, keys and values."""
        E, beam = self.width, state.beam
        x, qkv = v.new_empty(block.rows, E), v.new_empty(block.rows, 3 * E)
        first = self.first.of_target(v)  # [A, beam, 3E]
        for n, span in zip(block.sentences, block.spans, strict=True):
            sentence, shape = state.sentences[n], (beam, state.sentences[n].length, -1)
            torch.add(sentence.first, first[n, :, None], out=qkv[span].view(shape))
            part = x[span].view(shape)
            if self.is_sum:
                torch.add(sentence.states, v[n, :, None], out=part)
            else:
                half = E // 2
                part[..., :half], part[..., half:] = sentence.states, v[n, :, None]
        return x, self.first.finish(qkv, x)

    def _along_target(
        self, block: _Block, state: JointState, layer: int, qkv: Tensor, bias: Tensor
    ) -> Tensor:
        """Return what each row mixes of its hypothesis's earlier columns, [rows, E]."""
        H, beam = self.heads, state.beam
        mixed = qkv.new_empty(len(qkv), self.width)
        for n, span in zip(block.sentences, block.spans, strict=True):
            cache, S = state.caches[n], state.sentences[n].length
            parts = qkv[span].view(beam, S, 3, H, -1)
            cache.write(layer, parts[:, :, 1:])
            k, v = cache.read(layer)  # [S H, slots, D]
            q = parts[:, :, 0].permute(1, 2, 0, 3).reshape(S * H, beam, -1)
            own = bias[n, :, : cache.used].expand(S * H, -1, -1)
            weights = torch.softmax(torch.baddbmm(own, q, k.mT), -1)
            lines = torch.bmm(weights, v).view(S, H, beam, -1)
            mixed[span].view(beam, S, H, -1).copy_(lines.permute(2, 0, 1, 3))
        return mixed

    def _along_source(self, block: _Block, beam: int, qkv: Tensor) -> Tensor:
        """Return what each row mixes of its column, [rows, E], in the type of products."""
        H = self.heads
        mixed = qkv.new_empty(len(qkv), self.width)
        for run in block.runs:
            lines, S = run.sentences * beam, run.length
            parts = qkv[run.rows].view(lines, S, 3, H, -1).permute(2, 0, 3, 1, 4)
            q, k, v = parts.reshape(3, lines * H, S, -1)
            weights = torch.softmax(torch.bmm(q, k.mT), -1, dtype=self.dtype)
            out = torch.bmm(weights.to(v.dtype), v).view(lines, H, S, -1)
            mixed[run.rows].view(lines, S, H, -1).copy_(out.transpose(1, 2))
        return mixed


class _Layer:
    """The weights of a joint layer.

    With pre-norm, the scale and shift of a layer norm are part of the weights that read it.
    """

    def __init__(self, layer: JointLayer, dtype: torch.dtype) -> None:
        self.products, self.dtype = dtype, input_type(dtype)
        residuals = residuals_of(layer)
        self.norms = [residual.norm for residual in residuals]
        self.is_pre = residuals[0].pre_norm
        self.ones = torch.ones_like(self.norms[0].weight)
        self.zeros = torch.zeros_like(self.norms[0].weight)
        read = [residual.norm if residual.pre_norm else None for residual in residuals]
        self.target_in, self.target_out = self._attention(layer.target_attention.attention, read[0])
        self.target_ffn = self._feed_forward(layer.target_ffn, read[1])
        self.source_in, self.source_out = self._attention(layer.source_attention.attention, read[2])
        self.source_ffn = self._feed_forward(layer.source_ffn, read[3])

    def read(self, x: Tensor) -> Tensor:
        """Return what a block reads of the running state, [n, E]."""
        return (self.normalised(x) if self.is_pre else x).to(self.dtype)

    def normalised(self, x: Tensor) -> Tensor:
        """Return ``(x - mean) / std`` over the last axis, [n, E]."""
        # measured: on a CPU torch takes twice as long without scale and shift
        return F.layer_norm(x, x.shape[-1:], self.ones, self.zeros, self.norms[0].eps)

    def add(self, number: int, outer: FixedLinear, x: Tensor, inner: Tensor) -> Tensor:
        """Return the running state after a block: x plus a linear map of `inner`, both [n, E]."""
        x = outer.add_to(x, inner.to(self.dtype))
        return x if self.is_pre else self.norms[number](x)

    def feed_forward(self, number: int, maps: tuple[FixedLinear, FixedLinear], x: Tensor) -> Tensor:
        """Return the running state after an FFN, [n, E]."""
        inner, outer = maps
        return self.add(number, outer, x, inner.relu(self.read(x)))

    def _attention(
        self, attention: MultiHeadAttention, norm: nn.LayerNorm | None
    ) -> tuple[FixedLinear, FixedLinear]:
        weight, bias = scaled_queries(attention)
        out = attention.out
        return (
            FixedLinear(*with_norm(weight, bias, norm), self.products),
            FixedLinear(out.weight, out.bias, self.products),
        )

    def _feed_forward(
        self, block: FeedForward, norm: nn.LayerNorm | None
    ) -> tuple[FixedLinear, FixedLinear]:
        inner, outer = block.inner, block.outer
        return (
            FixedLinear(*with_norm(inner.weight, inner.bias, norm), self.products),
            FixedLinear(outer.weight, outer.bias, self.products),
        )


class _FirstInput:
    """Queries, keys and values of the first layer, from both sides' tokens.

    Args:
        layer: the first layer.
        width: of a token's vector.
        is_sum: whether the grid is a sum; otherwise both sides' vectors are joined.
    """

    def __init__(self, layer: JointLayer, width: int, is_sum: bool) -> None:
        residual = residuals_of(layer)[0]
        norm = residual.norm if residual.pre_norm else None
        self.eps = None if norm is None else norm.eps
        weight, bias = scaled_queries(layer.target_attention.attention)
        weight, self.bias = with_norm(weight, bias, norm)
        if norm is not None:
            weight = weight - weight.mean(1, keepdim=True)
        self.source = weight if is_sum else weight[:, :width].contiguous()
        self.target = weight if is_sum else weight[:, width:].contiguous()

    def of_source(self, u: Tensor) -> Tensor:
        """Return the source's share, [S, 3E]."""
        return F.linear(u, self.source)

    def of_target(self, v: Tensor) -> Tensor:
        """Return the target's share, [..., 3E]."""
        return F.linear(v, self.target)

    def finish(self, qkv: Tensor, x: Tensor) -> Tensor:
        """Turn the sum of both shares, [n, 3E], into queries, keys and values, in place.

        Args:
            qkv: the sum.
            x: the grid, [n, E].
        """
        if self.eps is None:
            return qkv.add_(self.bias)
        deviation = x.var(1, correction=0, keepdim=True).add_(self.eps)
        return torch.addcmul(self.bias, qkv, deviation.rsqrt_(), out=qkv)


class _Reduction:
    """The grid's columns to one vector each, with the norms before and after."""

    def __init__(self, model: Reformer) -> None:
        self.norm = model.grid_norm
        self.output_norm = model.output_norm
        self.scores: FixedLinear | None = None
        if isinstance(model.reduction, AttentionReduction):
            weight = model.reduction.weight
            self.scores = FixedLinear(weight, None, weight.dtype)

    def __call__(self, x: Tensor, runs: Sequence[_Run], beam: int) -> Tensor:
        """Return the hidden states of the hypotheses, [rows, E] -> [n, E]."""
        z = x if self.norm is None else self.norm(x)
        scores = None if self.scores is None else self.scores(z)
        reduced = []
        for run in runs:
            shape = (run.sentences * beam, run.length, -1)
            columns = z[run.rows].view(shape)
            if scores is None:
                reduced.append(columns.amax(1))
            else:
                weights = torch.softmax(scores[run.rows].view(shape), 1)
                reduced.append(weights.mul_(columns).sum(1))
        return self.output_norm(torch.cat(reduced))  # type: ignore[no-any-return]


def prepare_reformer(model: TranslationModel, precision: str) -> PreparedReformer | None:
    """Return the prepared form of a Reformer on a CPU; None elsewhere."""
    assert isinstance(model, Reformer)
    return PreparedReformer(model, precision) if model.device.type == "cpu" else None


def residuals_of(layer: JointLayer) -> list[Residual]:
    """Return the residual wrappings of the four blocks."""
    return [residual for residual in layer.residuals if isinstance(residual, Residual)]


def scaled_queries(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Return weight and bias of queries, keys and values, the queries' divided by sqrt(D)."""
    E = attention.out.in_features
    weight, bias = attention.in_weight.detach().clone(), attention.in_bias.detach().clone()
    scale = (E // attention.heads) ** -0.5
    weight[:E] *= scale
    bias[:E] *= scale
    return weight, bias


def with_norm(weight: Tensor, bias: Tensor, norm: nn.LayerNorm | None) -> tuple[Tensor, Tensor]:
    """Return the weights that read ``(x - mean) / std`` where the given ones read LN(x)."""
    if norm is None:
        return weight, bias
    return weight * norm.weight, bias + weight @ norm.bias


def _blocks(lengths: Sequence[int], beam: int) -> Iterator[_Block]:
    """Cut sentences of these source lengths into blocks of about `ROWS` rows."""
    first = 0
    while first < len(lengths):
        end, rows = first + 1, beam * lengths[first]
        while end < len(lengths) and rows + beam * lengths[end] <= ROWS:
            rows += beam * lengths[end]
            end += 1
        yield _block(range(first, end), lengths, beam)
        first = end


def _block(sentences: range, lengths: Sequence[int], beam: int) -> _Block:
    runs, spans, row = [], [], 0
    for S, members in groupby(lengths[n] for n in sentences):
        count, start = len([*members]), row
        for _ in range(count):
            spans.append(slice(row, row + beam * S))
            row += beam * S
        runs.append(_Run(count, S, slice(start, row)))
    return _Block(sentences, runs, spans, row)
