"""The Transformer's step on buffers of fixed sizes, and the prepared form that captures it.

What a step of `transformer.py` does with Python's numbers is done with tensors here: the position
and the new slots are counted on the device, and the order of the hypotheses is a buffer that is
read at the beginning of the step. Attention reads all slots; a bias of -inf leaves out those that
are not a hypothesis's own, or not yet written.

The first step of a search, with one hypothesis for each sentence, is that of `transformer.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.decoding.prepared.graphs import (
    Bucket,
    Capture,
    CudaCapture,
    StaticStep,
    StepGraphs,
)
from jtrans.decoding.prepared.source import PlainSource
from jtrans.decoding.prepared.target import keep_sentences, weights_of
from jtrans.decoding.prepared.transformer import (
    PreparedDecoder,
    PreparedState,
    PreparedTransformer,
)
from jtrans.models.base import Memory


@dataclass(frozen=True)
class Contents:
    """What the buffers of a search hold, named as in `StaticTransformerStep`."""

    held: list[Tensor]
    bias: Tensor
    source: PlainSource
    used: int  # slots written
    length: int  # positions read


class StaticTransformerStep(StaticStep):
    """A step of a bucket's size, with its buffers.

    Args:
        decoder: the prepared decoder.
        bucket: the sizes.
        device: where the buffers are.
    """

    def __init__(self, decoder: PreparedDecoder, bucket: Bucket, device: torch.device) -> None:
        self.decoder, self.bucket = decoder, bucket
        B, beam, S, slots = bucket.lanes, bucket.beam, bucket.source, bucket.slots
        L, H, E = len(decoder.layers), decoder.sources.heads, decoder.sources.width
        D, dtype = E // H, decoder.dtype

        def buffer(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.token = torch.zeros(B * beam, dtype=torch.int64, device=device)
        self.row = torch.arange(B * beam, device=device)  # which hypothesis each one continues
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.new = torch.arange(beam, device=device)  # the slots to write
        self.held = [buffer(2, B, H, slots, D) for _ in range(L)]
        self.bias = buffer(B * beam, slots)
        self.source = PlainSource(
            decoder.sources, buffer(L, B, H, D, S), buffer(L, B, H, S, D), buffer(B, S)
        )
        self.all = torch.arange(B * beam, device=device)
        own = torch.full((beam, beam), -math.inf).fill_diagonal_(0.0).to(self.bias)
        self._own = own.repeat(B, 1)  # [B * beam, beam]
        # a hypothesis has `beam` slots at least for each of its positions but the first
        self._positions = decoder.embedding.added(slots // beam + 2)

    def work(self) -> Tensor:
        """Read a token of each hypothesis, [lanes * beam, E]."""
        decoder, beam = self.decoder, self.bucket.beam
        self.bias.copy_(self.bias.index_select(0, self.row))
        self.bias.index_copy_(1, self.new, self._own)
        embedding = decoder.embedding
        vectors = F.embedding(self.token, embedding.weight)
        added = self._positions.index_select(0, self.position)
        x = torch.add(added, vectors, alpha=embedding.scale)
        hidden = decoder.layers_of(x.view(self.bucket.lanes, beam, -1), self, self.source)
        self.row.copy_(self.all)
        self.position.add_(1)
        self.new.add_(beam)
        return hidden

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Write the new slots and attend to all that are a hypothesis's own, [B, beam, E]."""
        held = self.held[layer]
        _, B, H, slots, D = held.shape
        parts = projected.view(B, -1, 3, H, D).permute(2, 0, 3, 1, 4)  # [3, B, H, beam, D]
        held.index_copy_(3, self.new, parts[1:].to(held.dtype))
        queries = parts[0].reshape(B * H, -1, D).to(held.dtype)
        keys, values = held.view(2, B * H, slots, D).unbind(0)
        scores = torch.bmm(queries, keys.mT).view(B, H, -1, slots)
        scores += self.bias.view(B, 1, -1, slots)
        mixed = torch.bmm(weights_of(scores).flatten(0, 1), values)
        return mixed.view(B, H, -1, D).transpose(1, 2).reshape(B, -1, H * D)

    def load(self, contents: Contents) -> None:
        """Fill the buffers with the state of a search; lanes that it does not need are idle."""
        used, count = contents.used, len(contents.bias)
        for held, other in zip(self.held, contents.held, strict=True):
            held.zero_()  # left by another search; not finite, it would spread even with weight 0
            held[:, : other.shape[1], :, :used] = other[..., :used, :]
        self.bias.fill_(-math.inf)[:count, :used] = contents.bias[:, :used]
        self.row.copy_(self.all)
        self.position.fill_(contents.length)
        torch.add(self.all[: self.bucket.beam], used, out=self.new)
        self.source.load(contents.source)

    def contents(self, sentences: int, used: int, length: int) -> Contents:
        """Return the state of the first sentences, in the order of `row`."""
        count = sentences * self.bucket.beam
        bias = self.bias.index_select(0, self.row)[:count]
        held = [each[:, :sentences] for each in self.held]
        return Contents(held, bias, self.source.first(sentences), used, length)


class GraphState:
    """The state of a search: an ordinary one, or that of buffers once they are taken.

    Args:
        form: whose graphs are used.
        plain: the ordinary state.
    """

    def __init__(self, form: GraphTransformer, plain: PreparedState) -> None:
        self.form = form
        self.plain: PreparedState | None = plain
        self.taken: StaticTransformerStep | None = None
        self.sentences, self.used, self.length = plain.sentences, 0, 0
        self._asked: Bucket | None = None

    def select(self, rows: Tensor) -> GraphState:
        """Return the state of the hypotheses `rows`, [B', beam']; this one must not be reused."""
        if self.taken is not None:
            self._reorder(self.taken, rows)
            return self
        assert self.plain is not None
        self.plain = self.plain.select(rows)
        slots, source = self.plain.slots, self.plain.source
        self.sentences = self.plain.sentences
        if slots.length == 1 and isinstance(source, PlainSource):
            self.used, self.length = slots.used, slots.length
            contents = Contents(slots.held, slots.bias, source, slots.used, slots.length)
            self._move(contents, slots.beam)
        return self

    def step(self, token: Tensor) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]."""
        if self.taken is None:
            assert self.plain is not None
            return self.form.plain.step(token, self.plain)
        bucket = self.taken.bucket
        if self.used + bucket.beam > bucket.slots:
            self._move(self._contents(), bucket.beam, needed=True)
        self.taken.token[: len(token)].copy_(token)
        self.used, self.length = self.used + bucket.beam, self.length + 1
        hidden = self.taken.replay()
        return hidden[: len(token)]

    def _reorder(self, step: StaticTransformerStep, rows: Tensor) -> None:
        """Let the first lanes go on as `rows`, [B', beam]."""
        bucket, B = step.bucket, len(rows)
        flat = rows.flatten()
        if self.sentences != B:
            lanes = rows[:, 0] // bucket.beam
            for held in step.held:
                keep_sentences(held, 1, lanes)
            step.source.keep(lanes)
            self.sentences = B
        step.row[: len(flat)] = flat
        if bucket.lanes >= 2 * B:
            self._move(self._contents(), bucket.beam)

    def _contents(self) -> Contents:
        assert self.taken is not None
        return self.taken.contents(self.sentences, self.used, self.length)

    def _move(self, contents: Contents, beam: int, *, needed: bool = False) -> None:
        """Take the buffers that fit, if there are some."""
        S = contents.source.length
        bucket = Bucket.holding(self.sentences, beam, S, contents.used + beam)
        if bucket == self._asked and not needed:  # in vain, by this search
            return
        self._asked = bucket
        taken = self.form.graphs.take(bucket, self, needed=needed)
        if taken is None:
            return
        taken.load(contents)
        if self.taken is not None:
            self.taken.user = None
        self.taken, self.plain = taken, None


class GraphTransformer:
    """A prepared Transformer whose steps are captured as CUDA graphs.

    Args:
        plain: the form without graphs.
        capture: another way to capture than torch's.
    """

    is_joint = False

    def __init__(self, plain: PreparedTransformer, capture: Capture | None = None) -> None:
        self.plain = plain
        self.longest, self.device = plain.longest, plain.device
        self.graphs: StepGraphs[StaticTransformerStep] = StepGraphs(
            lambda bucket: StaticTransformerStep(plain.decoder, bucket, plain.device),
            capture or CudaCapture(plain.device),
        )

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone."""
        return self.plain.encode(source, source_mask)

    def begin(self, memory: Memory, beam: int) -> GraphState:
        """Return the state of B x beam empty prefixes."""
        return GraphState(self, self.plain.decoder.begin(memory, beam, merges=False))

    def step(self, token: Tensor, state: GraphState) -> Tensor:
        """Read one more token of each hypothesis, [N] -> [N, E]; until the next step."""
        return state.step(token)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] -> [..., V]."""
        return self.plain.project(hidden)
