"""The Reformers' step on buffers of fixed sizes, and the form that captures it on a GPU.

A step adds a column of S positions to the grid of every hypothesis. A step of many rows, which
takes the GPU longer to compute than to launch, is not captured, as buffers have idle parts: the
model computes it itself, as it does for a size that no other search has needed yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from jtrans.decoding.prepared.captured.graphs import Bucket
from jtrans.decoding.prepared.captured.slots import Contents, SlotStep
from jtrans.decoding.prepared.captured.state import GraphForm, GraphState
from jtrans.decoding.prepared.converted import HalfPrecision
from jtrans.decoding.prepared.encoder import PreparedEmbedding
from jtrans.decoding.prepared.fixed_linear import product_type
from jtrans.decoding.prepared.joint import PreparedReformer
from jtrans.decoding.prepared.target import attention_type, keep_sentences, weights_of
from jtrans.models.base import Memory
from jtrans.models.reformer import Reformer, ReformerState
from jtrans.nn.gpu.capture import Capture
from jtrans.nn.gpu.operator import is_supported, short_axis_attention
from jtrans.nn.softmax import mask_bias

# Most rows of a captured step, idle ones included. Calculated, not measured: for as many rows of
# width 256 an H100 computes a layer's products as long as launching its operations takes.
MOST_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class JointSource:
    """What a column reads of the source, in buffers or of a search."""

    states: Tensor  # [B, S, E], half as wide if grid = "concat"
    first_layer: Tensor  # their share of the first layer's queries, keys and values, [B, S, 3E]
    bias: Tensor  # 0 on real source positions, -inf on padding, [B, S]

    @property
    def length(self) -> int:
        """S."""
        return self.bias.shape[1]

    def first(self, count: int) -> JointSource:
        """Return the first sentences, without a copy."""
        return JointSource(self.states[:count], self.first_layer[:count], self.bias[:count])

    def keep(self, sentences: Tensor) -> None:
        """Move some sentences, [B'], to the front of these buffers."""
        for each in (self.states, self.first_layer, self.bias):
            keep_sentences(each, 0, sentences)

    def load(self, other: JointSource) -> None:
        """Copy the sentences of `other` to the front; idle lanes are without padding."""
        B, S = other.bias.shape
        self.states.zero_()[:B, :S] = other.states
        self.first_layer.zero_()[:B, :S] = other.first_layer
        self.bias.zero_()[:B].fill_(-math.inf)[:, :S] = other.bias


class StaticJointStep(SlotStep[JointSource]):
    """A step of a bucket's size, with its buffers."""

    def __init__(self, weights: PreparedReformer, bucket: Bucket, dtype: torch.dtype) -> None:
        self.weights = weights
        model, device = weights.model, weights.device
        B, S, H, E = bucket.lanes, bucket.source, weights.heads, weights.width

        def buffer(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=weights.dtype, device=device)

        side = E if weights.is_sum else E // 2
        source = JointSource(buffer(B, S, side), buffer(B, S, 3 * E), buffer(B, S))
        super().__init__(
            bucket,
            PreparedEmbedding(model.target_embedding),
            source,
            layers=len(weights.layers),
            lines=(S, H),
            width=E // H,
            dtype=dtype,
            device=device,
        )

    def layers_of(self, vectors: Tensor) -> Tensor:
        """Return the hidden states of embedded tokens, [B, beam, E] -> [B * beam, E]."""
        weights, source = self.weights, self.source
        bias = source.bias[:, None, None].to(self.held[0].dtype)  # [B, 1, 1, S]
        first = source.first_layer[:, None] + weights.first.of_target(vectors)[:, :, None]
        x = self._grid(vectors)  # [B, beam, S, E]
        qkv = weights.first.finish(first.flatten(0, 2), x.flatten(0, 2))
        x = weights.through_layers(
            x.flatten(0, 2), qkv, self._along_target, partial(self._along_source, bias)
        ).view(x.shape)
        z = x if weights.reduction.norm is None else weights.reduction.norm(x)
        reduced: Tensor = weights.model.reduction(z, source.bias)  # [B, beam, E]
        return weights.reduction.output_norm(reduced.flatten(0, 1))  # type: ignore[no-any-return]

    def _grid(self, v: Tensor) -> Tensor:
        """Return the new columns, [B, beam, S, E]."""
        u, v = self.source.states[:, None], v[:, :, None]
        if self.weights.is_sum:
            return u + v
        beam, S = self.bucket.beam, self.bucket.source
        return torch.cat([u.expand(-1, beam, -1, -1), v.expand(-1, -1, S, -1)], dim=-1)

    def _along_target(self, layer: int, qkv: Tensor) -> Tensor:
        """Return what each row mixes of its hypothesis's columns, [rows, 3E] -> [rows, E]."""
        parts = self._by_head(qkv).permute(3, 0, 2, 4, 1, 5)  # [3, B, S, H, beam, D]
        return self.attend_to_slots(layer, parts).permute(0, 3, 1, 2, 4).reshape(len(qkv), -1)

    def _along_source(self, bias: Tensor, qkv: Tensor) -> Tensor:
        """Return what each row mixes of its column, [rows, 3E] -> [rows, E]."""
        bucket, heads = self.bucket, self.weights.heads
        if is_supported(qkv, length=bucket.source, head_width=self.weights.width // heads):
            grid = qkv.view(bucket.lanes, bucket.beam, bucket.source, -1)
            mixed = short_axis_attention(
                grid, heads, axis=2, key_bias=self.source.bias, is_scaled=True
            )
            return mixed.flatten(0, 2)
        parts = self._by_head(qkv).permute(3, 0, 1, 4, 2, 5)  # [3, B, beam, H, S, D]
        B, beam, H, S, D = parts.shape[1:]
        q, k, v = parts.reshape(3, -1, S, D)
        scores = torch.bmm(q, k.mT).view(B, beam * H, S, S)
        scores += bias
        mixed = torch.bmm(weights_of(scores).flatten(0, 1), v).view(B, beam, H, S, D)
        return mixed.transpose(2, 3).reshape(len(qkv), -1)

    def _by_head(self, qkv: Tensor) -> Tensor:
        """View rows as [B, beam, S, 3, H, D]."""
        bucket = self.bucket
        return qkv.view(bucket.lanes, bucket.beam, bucket.source, 3, self.weights.heads, -1)


class GraphReformer(GraphForm[ReformerState, JointSource]):
    """A Reformer on a GPU whose steps are captured as CUDA graphs while they are small.

    Args:
        model: in evaluation mode.
        precision: ``fp32``, that of the weights, or ``bf16``.
        capture: another way to capture than torch's.
    """

    def __init__(self, model: Reformer, precision: str, capture: Capture | None = None) -> None:
        self._weights = weights = PreparedReformer(model, precision)
        dtype = attention_type(product_type(precision, weights.dtype), model.device)
        super().__init__(
            HalfPrecision(model) if precision == "bf16" else model,
            lambda bucket: StaticJointStep(weights, bucket, dtype),
            capture,
        )

    def begin(self, memory: Memory, beam: int) -> GraphState[ReformerState, JointSource]:
        """Return the state of B x beam empty prefixes."""
        plain = self.plain.begin(memory, beam)
        assert isinstance(plain, ReformerState)
        return GraphState(self, plain, sentences=len(memory.mask))

    def bucket(self, plain: ReformerState) -> Bucket | None:
        """Return the sizes that would hold an ordinary state; None if it has many rows."""
        B, beam, slots = plain.cache.mask.shape
        bucket = Bucket.holding(B, beam, plain.memory.mask.shape[1], slots + beam)
        return bucket if bucket.lanes * beam * bucket.source <= MOST_ROWS else None

    def contents(self, plain: ReformerState) -> Contents[JointSource]:
        """Return what an ordinary state holds."""
        cache, weights = plain.cache, self._weights
        held = [torch.stack(layer.tensors()) for layer in cache.layers]
        bias = mask_bias(cache.mask, held[0].dtype).flatten(0, 1)
        states = plain.memory.states.to(weights.dtype)
        padding = mask_bias(plain.memory.mask, weights.dtype)
        source = JointSource(states, weights.first.of_source(states), padding)
        return Contents(held, bias, source, bias.shape[1], cache.length)
