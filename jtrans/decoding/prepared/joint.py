"""Reformer-base and Reformer-fast prepared for the search: their weights, and the form for a CPU.

A step adds a column of S positions to the grid of every hypothesis (see
`jtrans.decoding.prepared.columns`).

Prepared once: layer norms' scale and shift are part of the weights that read them, and 1/sqrt(D)
of those of the queries. Prepared once per sentence: the source's share of the first layer's
queries, keys and values. Its input is ``u_i + v_j``, so with W centred,
``W LN(u_i + v_j) = (W u_i + W v_j) / std(u_i + v_j)``, and no product of the grid's size is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.decoding.prepared.columns import (
    USUAL_BEAM,
    Block,
    JointState,
    Neighbours,
    SameLength,
    Segment,
    Sentence,
    ends_of_parts,
)
from jtrans.decoding.prepared.encoder import norm_before, scaled_queries
from jtrans.decoding.prepared.fixed_linear import (
    FixedLinear,
    fixed_linear,
    product_type,
    with_norm,
)
from jtrans.decoding.prepared.slots import Slots
from jtrans.models.base import Memory
from jtrans.models.reformer import JointLayer, Reformer
from jtrans.nn.cpu.short_lines import attend
from jtrans.nn.memory import require_memory
from jtrans.nn.reduction import AttentionReduction
from jtrans.nn.residual import Residual


class PreparedReformer:
    """A Reformer with weights prepared for the search, and its search on a CPU.

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
        self.output = fixed_linear(model.output.weight, model.output.bias, self.dtype)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone: in float32, as it is little work."""
        return self.model.encode(source, source_mask)

    def begin(self, memory: Memory, beam: int) -> JointState:
        """Return the state of B x beam empty prefixes."""
        lengths = memory.mask.sum(1).tolist()
        sentences: list[Sentence] = []
        for end in ends_of_parts(lengths):
            members = range(len(sentences), end)
            states = torch.cat([memory.states[n, : lengths[n]] for n in members])
            expected = USUAL_BEAM * max(lengths[n] for n in members)
            slots = Slots(len(self.layers), len(states), self.width, self.dtype, expected)
            group, start = Neighbours(states, self.first.of_source(states), slots), 0
            for n in members:
                sentences.append(Sentence(group, start, lengths[n]))
                start += lengths[n]
        return JointState(sentences, torch.zeros(len(lengths), beam, 0, dtype=torch.bool), 0)

    def step(self, token: Tensor, state: JointState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]: one more column of the grid."""
        v = self.model.target_embedding(token[:, None], start=state.length)[:, 0]  # [N, E]
        v = v.view(len(state.sentences), state.beam, -1).transpose(0, 1).contiguous()
        first = self.first.of_target(v)  # [beam, A, 3E]
        state.take_slots()
        state.length += 1
        return torch.cat([self._columns(block, state, v, first) for block in state.blocks])

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.output(hidden)

    def _columns(self, block: Block, state: JointState, v: Tensor, first: Tensor) -> Tensor:
        """Return the hidden states of the hypotheses of a block, [n, E]."""
        self._require_memory(block, state.beam)
        x, qkv = self._first(block, v, first)
        earlier = [_Earlier(part, block, state, self.heads, self.dtype) for part in block.segments]
        x = self.through_layers(
            x,
            qkv,
            lambda layer, qkv: self._along_target(layer, earlier, state.beam, qkv),
            lambda qkv: self._along_source(block.runs, state.beam, qkv),
        )
        return self.reduction(x, block.runs, state.beam)

    def through_layers(
        self,
        x: Tensor,
        qkv: Tensor,
        along_target: Callable[[int, Tensor], Tensor],
        along_source: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Return the rows after all layers, [n, E].

        Args:
            x: the grid's new columns, [n, E].
            qkv: the first queries, keys and values, [n, 3E].
            along_target: attention to a hypothesis's columns, by number of the layer and qkv.
            along_source: attention within a column.
        """
        for number, layer in enumerate(self.layers):
            if number:
                qkv = layer.target_in(x)
            x = layer.add(0, layer.target_out, x, along_target(number, qkv))
            x = layer.feed_forward(1, layer.target_ffn, x)
            qkv = layer.source_in(x)
            x = layer.add(2, layer.source_out, x, along_source(qkv))
            x = layer.feed_forward(3, layer.source_ffn, x)
        return x

    def _require_memory(self, block: Block, beam: int) -> None:
        """Refuse a block whose rows and attention weights do not fit, as of one long sentence."""
        scores = max(run.sentences * run.length**2 for run in block.runs) * beam * self.heads
        vectors = beam * block.positions * (5 * self.width + self.ffn_width)
        size = (vectors + 2 * scores) * self.dtype.itemsize  # weights beside scores
        require_memory(size, self.device, "the rows of a step and their attention weights")

    def _first(self, block: Block, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Return the grid's new columns, [rows, E], and the first queries, keys and values."""
        qkv = first.index_select(1, block.owner).add_(block.first)  # [beam, R, 3E]
        v = v.index_select(1, block.owner)
        if self.is_sum:
            x = v.add_(block.states)
        else:
            x = torch.cat([block.states.expand(len(v), -1, -1), v], dim=-1)
        x = x.flatten(0, 1)
        return x, self.first.finish(qkv.flatten(0, 1), x)

    def _along_target(
        self, layer: int, earlier: Sequence[_Earlier], beam: int, qkv: Tensor
    ) -> Tensor:
        """Return what each row mixes of its hypothesis's columns, [rows, E]."""
        E = self.width
        q = qkv.new_empty(len(qkv), E, dtype=self.dtype).copy_(qkv[:, :E])
        columns = qkv[:, E:].to(self.dtype).view(beam, -1, 2 * E)
        mixed = torch.empty_like(q)
        for part in earlier:
            part.mix(layer, q.view(beam, -1, E), columns, mixed.view(beam, -1, E))
        return mixed

    def _along_source(self, runs: Sequence[SameLength], beam: int, qkv: Tensor) -> Tensor:
        """Return what each row mixes of its column, [rows, E]."""
        H, dtype = self.heads, self.dtype
        mixed = qkv.new_empty(len(qkv), self.width, dtype=dtype)
        for run in runs:
            lines = (beam, run.sentences, run.length, H, -1)
            parts = qkv.view(beam, -1, 3, self.width)[:, run.positions]
            parts = parts.unflatten(1, lines[1:3]).unflatten(-1, (H, -1)).permute(3, 0, 1, 4, 2, 5)
            heads = torch.empty(parts.shape, dtype=dtype).copy_(parts)  # [3, beam, n, H, S, D]
            out, sums = attend(*heads.flatten(1, 3))
            shape = heads.shape[1:-1]
            out, sums = (each.view(*shape, -1).transpose(2, 3) for each in (out, sums))
            torch.div(out, sums, out=mixed.view(beam, -1, self.width)[:, run.positions].view(lines))
        return mixed


class _Earlier:
    """The columns of a segment's hypotheses that come before a new one, and the new one itself.

    Args:
        part: the segment.
        block: that of the segment.
        state: state of the search, which has given each hypothesis a new slot.
        heads: H.
        dtype: type of keys and values.
    """

    def __init__(
        self, part: Segment, block: Block, state: JointState, heads: int, dtype: torch.dtype
    ) -> None:
        self.slots, self.held, self.positions = part.group.slots, part.held, part.positions
        self.heads = heads
        owner = block.owner[part.positions]
        R = self.slots.positions
        places = torch.arange(part.held.start, part.held.stop)
        self.places = state.new.t()[:, owner].mul_(R).add_(places).flatten()  # of new columns
        mask = state.mask[:, :, : self.slots.used]
        self.allowed = mask.index_select(0, owner).to(dtype)  # [r, beam, used]

    def mix(self, layer: int, q: Tensor, columns: Tensor, mixed: Tensor) -> None:
        """Write the new columns; every hypothesis attends over all columns of its own.

        Args:
            layer: its number.
            q: queries of the block, [beam, R, E].
            columns: keys and values of the block, [beam, R, 2E].
            mixed: where the result is written, [beam, R, E].
        """
        self.slots.write(layer, self.places, columns[:, self.positions].flatten(0, 1))
        k, v = self.slots.read(layer, self.held, self.heads)
        q, mixed = (
            each[:, self.positions].unflatten(-1, (self.heads, -1)).flatten(1, 2).transpose(0, 1)
            for each in (q, mixed)
        )  # [r H, beam, D]
        out, sums = attend(q, k, v, self.allowed)
        torch.div(out, sums, out=mixed)


class _Layer:
    """The weights of a joint layer: with pre-norm, the maps into a block begin with its norm."""

    def __init__(self, layer: JointLayer, dtype: torch.dtype) -> None:
        self.products = dtype
        residuals = residuals_of(layer)
        self.after = [None if each.pre_norm else each.norm for each in residuals]
        target, source = layer.target_attention.attention, layer.source_attention.attention
        norms = [norm_before(each) for each in residuals]
        self.target_in, self.target_out = self._maps(*scaled_queries(target), target.out, norms[0])
        self.source_in, self.source_out = self._maps(*scaled_queries(source), source.out, norms[2])
        self.target_ffn, self.source_ffn = (
            self._maps(block.inner.weight, block.inner.bias, block.outer, norm)
            for block, norm in ((layer.target_ffn, norms[1]), (layer.source_ffn, norms[3]))
        )

    def add(self, number: int, outer: FixedLinear, x: Tensor, inner: Tensor) -> Tensor:
        """Return the running state after a block: x plus a linear map of `inner`, both [n, E]."""
        x, norm = outer.add_to(x, inner), self.after[number]
        return x if norm is None else norm(x)

    def feed_forward(self, number: int, maps: tuple[FixedLinear, FixedLinear], x: Tensor) -> Tensor:
        """Return the running state after an FFN, [n, E]."""
        inner, outer = maps
        return self.add(number, outer, x, inner.relu(x))

    def _maps(
        self, weight: Tensor, bias: Tensor, outer: nn.Linear, norm: nn.LayerNorm | None
    ) -> tuple[FixedLinear, FixedLinear]:
        """Return the maps into and out of a block that reads the running state after `norm`."""
        return (
            fixed_linear(weight, bias, self.products, norm),
            fixed_linear(outer.weight, outer.bias, self.products),
        )


class _FirstInput:
    """Queries, keys and values of the first layer, from both sides' tokens.

    Args:
        layer: the first layer.
        width: width of a token vector.
        is_sum: whether the grid is a sum; otherwise both sides' vectors are concatenated.
    """

    def __init__(self, layer: JointLayer, width: int, is_sum: bool) -> None:
        norm = norm_before(residuals_of(layer)[0])
        self.eps = None if norm is None else norm.eps
        weight, self.bias = scaled_queries(layer.target_attention.attention)
        if norm is not None:
            weight, self.bias = with_norm(weight, self.bias, norm)
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
        # a sixth of the time of `var`
        deviation = torch.native_layer_norm(x, x.shape[1:], None, None, self.eps)[2]
        return torch.addcmul(self.bias, qkv, deviation, out=qkv)


class _Reduction:
    """The Reduction of each column to a vector, with the norms before and after."""

    def __init__(self, model: Reformer) -> None:
        self.norm = model.grid_norm
        self.output_norm = model.output_norm
        self.scores: FixedLinear | None = None
        if isinstance(model.reduction, AttentionReduction):
            weight = model.reduction.weight
            self.scores = fixed_linear(weight, None, weight.dtype)

    def __call__(self, x: Tensor, runs: Sequence[SameLength], beam: int) -> Tensor:
        """Return the hidden states of the hypotheses, [rows, E] -> [n, E]."""
        z = x if self.norm is None else self.norm(x)
        scores = None if self.scores is None else self.scores(z)
        reduced = []
        for run in runs:
            columns = _columns_of(run, z, beam)
            if scores is None:
                reduced.append(columns.amax(2))
            else:
                weights = torch.softmax(_columns_of(run, scores, beam), 2)
                reduced.append(weights.mul_(columns).sum(2))
        by_sentence = torch.cat(reduced, dim=1).transpose(0, 1)  # [n / beam, beam, E]
        return self.output_norm(by_sentence.flatten(0, 1))  # type: ignore[no-any-return]


def _columns_of(run: SameLength, rows: Tensor, beam: int) -> Tensor:
    """Return the rows of a run, [rows, E] -> [beam, sentences, S, E]."""
    block = rows.view(beam, -1, rows.shape[-1])
    return block[:, run.positions].view(beam, run.sentences, run.length, -1)


def residuals_of(layer: JointLayer) -> list[Residual]:
    """Return the residual wrappings of the four blocks."""
    return [residual for residual in layer.residuals if isinstance(residual, Residual)]
