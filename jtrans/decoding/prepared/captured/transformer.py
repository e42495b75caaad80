"""The Transformer's step on buffers of fixed sizes, and the prepared form that captures it."""

from __future__ import annotations

import torch
from torch import Tensor

from jtrans.decoding.prepared.captured.graphs import Bucket
from jtrans.decoding.prepared.captured.slots import Contents, SlotStep
from jtrans.decoding.prepared.captured.state import GraphForm, GraphState
from jtrans.decoding.prepared.source import PlainSource
from jtrans.decoding.prepared.transformer import PreparedState, PreparedTransformer
from jtrans.models.base import Memory
from jtrans.nn.gpu.capture import Capture


class StaticTransformerStep(SlotStep[PlainSource]):
    """A step of a bucket's size, with its buffers."""

    def __init__(self, form: PreparedTransformer, bucket: Bucket) -> None:
        self.form = form
        B, S = bucket.lanes, bucket.source
        L, H = len(form.layers), form.sources.heads
        D, dtype, device = form.sources.width // H, form.dtype, form.device

        def buffer(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        source = PlainSource(
            form.sources, buffer(L, B, H, D, S), buffer(L, B, H, S, D), buffer(B, S)
        )
        super().__init__(
            bucket,
            form.embedding,
            source,
            layers=L,
            lines=(H,),
            width=D,
            dtype=dtype,
            device=device,
        )

    def layers_of(self, vectors: Tensor) -> Tensor:
        """Return the hidden states of embedded tokens, [B, beam, E] -> [B * beam, E]."""
        return self.form.layers_of(vectors.flatten(0, 1), self, self.source)

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Write the new slots and attend to those of each prefix, [N, 3E] -> [N, E]."""
        _, B, H, _, D = self.held[layer].shape
        parts = projected.view(B, 1, -1, 3, H, D).permute(3, 0, 1, 4, 2, 5)
        return self.attend_to_slots(layer, parts).transpose(2, 3).reshape(-1, H * D)


class GraphTransformer(GraphForm[PreparedState, PlainSource]):
    """A prepared Transformer whose steps are captured as CUDA graphs.

    Args:
        plain: the form without graphs.
        capture: another way to capture than torch's.
    """

    plain: PreparedTransformer

    def __init__(self, plain: PreparedTransformer, capture: Capture | None = None) -> None:
        super().__init__(plain, lambda bucket: StaticTransformerStep(plain, bucket), capture)

    def begin(self, memory: Memory, beam: int) -> GraphState[PreparedState, PlainSource]:
        """Return the state of B x beam empty prefixes."""
        plain = self.plain.begin(memory, beam, merges=False)
        return GraphState(self, plain, sentences=len(memory.mask))

    def bucket(self, plain: PreparedState) -> Bucket | None:
        """Return the sizes that would hold an ordinary state after the first step; else None."""
        slots, source = plain.slots, plain.source
        if slots.length != 1 or not isinstance(source, PlainSource):
            return None
        return Bucket.holding(slots.sentences, slots.beam, source.length, slots.used + slots.beam)

    def contents(self, plain: PreparedState) -> Contents[PlainSource]:
        """Return what an ordinary state holds."""
        slots, source = plain.slots, plain.source
        assert isinstance(source, PlainSource)
        return Contents(slots.held, slots.bias, source, slots.used, slots.length)
